"""What the documents say is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduler.protocol import ERRORS

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_every_error_code_is_documented_with_its_status():
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", (ROOT / "docs/errors.md").read_text(), re.M))

    assert rows == {code: str(kind.status) for code, kind in ERRORS.items()}


def test_every_variable_of_the_settings_is_documented():
    readers = ("routerproj/settings.py", "routerproj/kv_settings.py", "routerproj/sign_on/conf.py")
    settings = "".join((ROOT / reader).read_text() for reader in readers)
    documented = (ROOT / "docs/configuration.md").read_text()

    names = set(re.findall(r'"((?:CORRAL|LLAMA)_[A-Z_]+|DATABASE_URL|REDIS_URL)"', settings))

    assert {name for name in names if f"`{name}`" not in documented} == set()


def test_every_test_that_the_deviations_name_exists():
    named = set(re.findall(r"`(tests/[\w/.]+)`", (ROOT / "docs/deviations.md").read_text()))

    assert named
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_the_readme_shows_the_two_commands():
    readme = (ROOT / "README.md").read_text()

    assert "make serve" in readme
    assert "make test" in readme


def test_every_make_target_that_is_named_exists():
    named = set()
    for path in [*DOCUMENTS, *ROOT.glob("routerproj/**/*.py"), *ROOT.glob("models_registry/*.py")]:
        named |= set(re.findall(r"`make ([a-z-]+)", path.read_text()))

    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))

    assert "engine" in named
    assert named <= targets
