"""A library finds only what we let it find."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from models_registry.lean_imports import taken_as_missing

FRESH = """
import sys
import routerproj.logs
print(*sorted({"rich", "twisted"} & sys.modules.keys()))
import twisted
"""
SET_UP = """
import sys, django
django.setup()
import models_registry.jobs
print(*sorted({"jinja2", "psycopg", "rich", "twisted"} & sys.modules.keys()))
import jinja2, psycopg
import django.db.backends.postgresql.base
"""


def found_by(code: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "routerproj.settings"} | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_the_log_imports_neither_rich_nor_twisted_and_both_can_be_imported_after_it():
    assert found_by(FRESH) == []


@pytest.mark.parametrize("pageless", ["1", "0"])
def test_no_process_imports_what_it_does_not_use_and_all_of_it_can_be_imported_later(pageless):
    assert found_by(SET_UP, CORRAL_PAGELESS=pageless, DATABASE_URL="") == []


def test_what_is_imported_already_stays():
    with taken_as_missing("json", "sys"):
        import json as inside

        assert inside is sys.modules["json"]
