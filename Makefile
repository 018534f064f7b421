# Each target is the only way to do its thing, in CI too. `make` alone lists them.

ARGS ?=
PYTHON := .venv/bin/python

.PHONY: help serve engine test check format bench setup setup-dev lock audit licences sbom screenshots

help:
	@echo "make serve   set up, then serve at http://127.0.0.1:8080 (more options: make serve ARGS='--port 9000')"
	@echo "make engine  build the engine anew for this machine"
	@echo "make test    set up, then linters and all tests"
	@echo "make check   linters, types, import rules, Django checks"
	@echo "make format  let ruff rewrite"
	@echo "make lock    locks/ anew, after a change of requirements*.txt (ARGS=--upgrade: the newest of the rest)"
	@echo "make audit   known holes in what is locked (ARGS=--strict: fails where nobody can be asked)"
	@echo "make licences  docs/licences.md anew"
	@echo "make screenshots  the documents' pictures of the pages anew, docs/images"
	@echo "make sbom    the bill of materials, var/sbom.json"
	@echo "make bench   the measurements behind the speed claims, into benchmarks/results.md (20 minutes; ARGS=swap_time for one)"

setup:
	@scripts/setup.sh serve

setup-dev:
	@scripts/setup.sh test

serve: setup
	@exec $(PYTHON) manage.py serve $(ARGS)

# No setup before it: it is for when setup's engine does not run here.
engine:
	@[ -x $(PYTHON) ] || python3 -m venv .venv
	@$(PYTHON) scripts/engine.py --again

check: setup-dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy routerproj proxy scheduler models_registry
	.venv/bin/lint-imports
	CORRAL_VAR=tests/.cache/check $(PYTHON) manage.py check
	CORRAL_VAR=tests/.cache/check $(PYTHON) manage.py makemigrations --check --dry-run
	$(PYTHON) -m scripts.audit

test: check
	@$(PYTHON) scripts/tests.py $(ARGS)

format: setup-dev
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

# No setup before it: that refuses what the locks do not hold yet.
lock:
	@$(PYTHON) -m uv --version >/dev/null 2>&1 || $(PYTHON) -m pip install -q --require-hashes --no-deps -r locks/test.txt
	@$(PYTHON) -m scripts.lock $(ARGS)

audit: setup-dev
	@$(PYTHON) -m scripts.audit $(ARGS)

licences: setup-dev
	@$(PYTHON) -m scripts.licences

sbom: setup-dev
	@$(PYTHON) -m scripts.sbom

screenshots: setup-dev
	$(PYTHON) -m scripts.screenshots

bench: setup-dev
	$(PYTHON) -m benchmarks $(ARGS)
