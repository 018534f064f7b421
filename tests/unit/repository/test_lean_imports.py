"""A library finds only what we let it find."""

from __future__ import annotations

import subprocess
import sys

from routerproj.lean_imports import taken_as_missing

FRESH = """
import sys
import routerproj.logs
print(*sorted({"rich", "twisted"} & sys.modules.keys()))
import twisted
"""


def test_the_log_imports_neither_rich_nor_twisted_and_both_can_be_imported_after_it():
    found = subprocess.run(
        [sys.executable, "-c", FRESH], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == []


def test_what_is_imported_already_stays():
    with taken_as_missing("json", "sys"):
        import json as inside

        assert inside is sys.modules["json"]
