"""All that an SQLite file holds is moved to PostgreSQL, as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import prepared
from tests.support.postgres import Cluster
from tests.support.prepared import MANAGE, clean_environment

pytestmark = pytest.mark.slow

FILL = """
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from tests.support.filled_tables import fill

executor = MigrationExecutor(connection)
models = executor.loader.project_state(executor.loader.graph.leaf_nodes()).apps.get_models(
    include_auto_created=True
)
ours = ("models_registry", "scheduler", "proxy")
ours = [m for m in models if m._meta.app_label in ours or m._meta.label == "auth.User"]
fill([each for each in ours if each.__name__ != "AuditRecord"], 3, {})
"""
TELL = """
import json
from django.apps import apps
from tests.support.filled_tables import contents

print(json.dumps(contents(apps.get_models(include_auto_created=True)), default=repr))
"""
GOES_ON = """
from proxy.keys import create_key, stored_key
assert stored_key(create_key("after").encode()).pk
"""


def manage(var: Path, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = clean_environment() | {"CORRAL_VAR": str(var), "PYTHONPATH": str(Path.cwd())}
    return subprocess.run(
        [sys.executable, str(MANAGE), *arguments],
        env=environment | ({"DATABASE_URL": url} if url else {}),
        capture_output=True,
        text=True,
        timeout=120,
    )


def shell(var: Path, url: str, code: str) -> str:
    done = manage(var, url, "shell", "--no-imports", "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_row_is_there_and_new_ones_come_behind_them(
    server: Cluster, database: str, tmp_path: Path
) -> None:
    var, url = tmp_path / "var", server.url(database)
    prepared.first_state(var)
    shell(var, "", FILL)
    file = str(var / prepared.DATABASE)

    done = manage(var, url, "copydatabase", file)

    assert done.returncode == 0, done.stderr
    before, after = (json.loads(shell(var, each, TELL)) for each in ("", url))
    assert before["proxy.ApiKey"]
    assert before["proxy.UsageRecord"]
    assert before["models_registry.AuditRecord"]
    assert manage(var, url, "audit", "--verify").returncode == 0
    assert after == before
    shell(var, url, GOES_ON)
    again = manage(var, url, "copydatabase", file)
    nothing = manage(var, url, "copydatabase", str(tmp_path / "none"))
    assert (nothing.returncode, "there is no file" in nothing.stderr) == (1, True)
    assert (again.returncode, "something in the database already" in again.stderr) == (1, True)


@pytest.mark.parametrize(
    ("content", "told"), [(b"", "older version"), (b"x" * 99, "no database of Corral's")]
)
def test_what_is_no_database_of_corrals_is_not_copied(
    server: Cluster, database: str, tmp_path: Path, content: bytes, told: str
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)

    done = manage(tmp_path, server.url(database), "copydatabase", str(file))

    assert done.returncode == 1
    assert told in done.stderr
    assert server.sql("SELECT count(*) FROM proxy_team", database) == ["1"]


def test_to_sqlite_nothing_is_copied(tmp_path: Path) -> None:
    done = manage(tmp_path, "", "copydatabase", str(tmp_path / "file"))

    assert (done.returncode, "no PostgreSQL" in done.stderr) == (1, True)
