"""What the gateways of one test run need not each make for themselves: tables and keys, model files
in one place, and what these were measured to take."""

from __future__ import annotations

import atexit
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.made_once import of_these_sources
from tests.support.tables import DATABASE, MANAGE, clean_environment, tables
from tests.support.tiny_model import tiny_model

MAKE = """
from proxy.keys import create_key
from proxy.scopes import Scope
from routerproj.serve.first_run import first_credentials

print(first_credentials().api_key)
print(create_key("robot", scopes=[Scope.ADMIN]))
"""
_measured: dict[str, dict[str, object]] = {}
"""Rows of measurements by fingerprint. That covers the file's path, size and time, the options and
the engine: a gateway for which one of these differs finds nothing here."""


@dataclass(frozen=True)
class State:
    """A state folder as the first start leaves it, without models; its key, and an admin's."""

    var: Path
    key: str
    admin_key: str


def first_state(var: Path) -> None:
    """Makes `var` such a folder, where nothing is yet."""
    shutil.copytree(state().var, var, dirs_exist_ok=True)


@cache
def state() -> State:
    """To be copied: no gateway runs on it."""
    folder = of_these_sources("state", _make_state)
    key, admin_key = (folder / "keys").read_text().split()
    return State(folder / "var", key, admin_key)


def _make_state(folder: Path) -> None:
    var = folder / "var"
    folder.mkdir()
    var.mkdir(mode=0o700)
    shutil.copyfile(tables(), var / DATABASE)
    (var / DATABASE).chmod(0o600)
    done = subprocess.run(
        [sys.executable, str(MANAGE), "shell", "--no-imports", "-c", MAKE],
        env=clean_environment() | {"CORRAL_VAR": str(var), "CORRAL_PAGELESS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    (folder / "keys").write_text(done.stdout)


def models_folder(models: Mapping[str, Mapping[str, int]]) -> Path:
    """The folder with these tiny models, the same one for all who ask: nobody may write there."""
    return _folder_of(json.dumps(models, sort_keys=True))


@cache
def _folder_of(models: str) -> Path:
    folder = _scratch("models")
    for name, dims in json.loads(models).items():
        tiny_model(folder, name, **dims)
    return folder


def rows(var: Path, query: str) -> list[tuple[Any, ...]]:
    """Of the database of a gateway, which may be at work."""
    with closing(sqlite3.connect(var / DATABASE, timeout=20)) as database:
        return database.execute(query).fetchall()


def tell_measurements(var: Path, models_dir: Path) -> None:
    """Into a database that no process uses: what earlier gateways measured of models of these
    names."""
    names = {file.stem for file in models_dir.glob("*.gguf")}
    known = [row for row in _measured.values() if row["preset"] in names]
    with closing(sqlite3.connect(var / DATABASE)) as database, database:
        for row in known:
            columns, places = ", ".join(row), ", ".join(f":{name}" for name in row)
            database.execute(
                f"INSERT OR IGNORE INTO models_registry_measurement ({columns}) VALUES ({places})",
                row,
            )


def keep_measurements(var: Path) -> None:
    """Of a gateway that has stopped: what it knows by measuring, for those that start later.
    Nothing when its rows are elsewhere."""
    if not (var / DATABASE).exists():
        return
    query = "SELECT * FROM models_registry_measurement WHERE state = 'measured' AND NOT estimated"
    with closing(sqlite3.connect(var / DATABASE)) as database:
        database.row_factory = sqlite3.Row
        for row in map(dict, database.execute(query)):
            del row["id"]
            _measured[str(row["fingerprint"])] = row


def _scratch(name: str) -> Path:
    """A folder that is gone when the tests end."""
    folder = Path(tempfile.mkdtemp(prefix=f"corral-{name}-"))
    atexit.register(shutil.rmtree, folder)
    return folder
