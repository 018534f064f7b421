#!/bin/sh
# All tests, in two halves side by side: those of one process (unit, runtime, proxy, Django), and
# those that start processes of their own (process, end to end, browser). With arguments it is pytest.
set -u
cd "$(dirname "$0")/.."
pytest() { .venv/bin/python -m pytest "$@"; }

if [ $# -gt 0 ]; then
    pytest "$@"
    exit
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
CORRAL_TESTS=near pytest --ignore tests/process --ignore tests/e2e --ignore tests/browser >"$log" 2>&1 &
near=$!
trap 'kill "$near" 2>/dev/null; exit 130' INT TERM

pytest tests/process tests/e2e tests/browser
far_result=$?
wait "$near"
near_result=$?

cat "$log"
[ "$far_result" -eq 0 ] && [ "$near_result" -eq 0 ]
