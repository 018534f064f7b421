#!/usr/bin/env bash
# Makes a fresh Debian or Ubuntu machine ready: system packages, the virtual environment, the engine.
# Usage: scripts/setup.sh serve|test. Says nothing and takes no time when all is there already.
set -euo pipefail
cd "$(dirname "$0")/.."

want=${1:?usage: scripts/setup.sh serve|test}
say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

javascript=tests/e2e/clients/javascript # clients for Node, which the tests run
stamp=.venv/.corral-setup
state=$(cat requirements.txt locks/*.txt $javascript/package-lock.json \
    scripts/setup.sh scripts/engine.py | sha256sum | cut -c1-16)
cpu=$({ grep -m1 -E '^(flags|Features)' /proc/cpuinfo || uname -m; } | sha256sum | cut -c1-8) # the engine is compiled for it
state="$state $cpu ${CORRAL_LLAMA_SERVER:-wheel} ${CMAKE_ARGS:-}"
if [ -x .venv/bin/python ] && grep -qsxF "$want $state" "$stamp"; then
    exit 0
fi

# System packages ----------------------------------------------------------------

[ "$(uname -s)" = Linux ] || fail "Corral runs on Linux; this is $(uname -s)."

missing=()
python=$(command -v python3 || true)
[ -n "$python" ] || missing+=(python3)
if [ -z "$python" ] || ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then missing+=(python3-venv); fi
command -v setpriv >/dev/null || missing+=(util-linux)
if [ -z "${CORRAL_LLAMA_SERVER:-}" ]; then
    { command -v g++ && command -v make; } >/dev/null || missing+=(build-essential)
fi
if [ "$want" = test ]; then
    command -v chromium >/dev/null || missing+=(chromium) # the browser tests drive it
    command -v node >/dev/null || missing+=(nodejs)
    command -v npm >/dev/null || missing+=(npm)
    # What depends on the database runs on PostgreSQL as well
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
fi

if [ ${#missing[@]} -gt 0 ]; then
    command -v apt-get >/dev/null || fail "please install what Debian calls: ${missing[*]} (here is no apt-get)."
    root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail "please run as root: apt-get install ${missing[*]}"
        root=(sudo)
    fi
    say "installing ${missing[*]}"
    "${root[@]}" apt-get update -qq
    DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq "${missing[@]}" >/dev/null
    python=$(command -v python3)
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "Python 3.11 or newer is needed; $python is $("$python" -V)."

# Virtual environment ------------------------------------------------------------------

if ! .venv/bin/python -c '' 2>/dev/null; then
    say "making .venv"
    rm -rf .venv
    "$python" -m venv .venv
fi
pip() { .venv/bin/python -m pip --disable-pip-version-check "$@"; }
locked() { pip install -q --require-hashes "$@"; } # no file is taken but those that locks/ knows

if [ -z "${CORRAL_LLAMA_SERVER:-}" ]; then
    wheel=$(.venv/bin/python scripts/engine.py) || fail "the engine could not be built (see above)."
    say "installing the engine"
    locked -r locks/serve.txt
    # The same version may be there, built for another CPU
    pip install -q --no-deps --force-reinstall "$wheel"
    .venv/bin/python scripts/engine.py --check || fail "the engine was built but does not run here."
else
    say "the engine is CORRAL_LLAMA_SERVER=$CORRAL_LLAMA_SERVER: building none"
    locked -r locks/serve.txt
fi

case ${CORRAL_DEMO:-1}/$want in
0/serve | false/serve) ;;
*)
    say "fetching the demo model"
    locked --no-deps -r locks/demo.txt
    ;;
esac
if [ "$want" = test ]; then
    say "installing what the tests need"
    locked -r locks/test.txt
    mkdir -p .venv/javascript
    cp $javascript/package.json $javascript/package-lock.json .venv/javascript/
    npm ci --prefix .venv/javascript --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
fi

# The stamp holds one state only, so that going back to an older checkout installs again.
grep -sF " $state" "$stamp" >"$stamp.new" || true
printf '%s\n' "$want $state" >>"$stamp.new"
mv "$stamp.new" "$stamp"
say "ready"
