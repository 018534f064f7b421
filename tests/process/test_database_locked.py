"""Somebody holds the database's write lock: who only uses the gateway does not notice."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.process.serving import served
from tests.support.prepared import state

pytestmark = pytest.mark.slow


def test_keys_are_looked_up_and_models_listed_while_another_process_writes(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        key = state().key
        with closing(sqlite3.connect(tmp_path / "corral.sqlite3")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            answers = [
                running.client.request("GET", "/v1/models", key=key, timeout=15) for _ in range(3)
            ]
            unknown = running.client.request("GET", "/v1/models", key=key[:-1] + "-", timeout=15)
            connection.rollback()

    assert [answer.status for answer in answers] == [200] * 3
    assert unknown.status == 401
