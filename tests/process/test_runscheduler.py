"""`manage.py runscheduler` as it is started by hand, with a database of its own."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.client import call
from scheduler.protocol import Acquire, Load, Ping, Refused, Snapshot
from scheduler.run_folder import control_socket
from tests.support.polling import eventually
from tests.support.prepared import MANAGE, first_state

from .running import short_var

pytestmark = pytest.mark.slow


@pytest.fixture
def var():
    with short_var() as folder:
        first_state(folder)
        yield folder


def environment(var: Path) -> dict[str, str]:
    return {**os.environ, "CORRAL_VAR": str(var), "CORRAL_DEMO": "0"}


def manage(var: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(MANAGE), *words],
        env=environment(var), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def answers(var: Path) -> bool:
    try:
        return call(control_socket(var), Ping(id=1)) == {}
    except Refused:
        return False


@pytest.fixture
def scheduler(var):
    process = subprocess.Popen(
        [sys.executable, str(MANAGE), "runscheduler"],
        env=environment(var), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        eventually(lambda: answers(var), "the scheduler answers", 60)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_it_answers_and_stops_when_asked(var, scheduler):
    with pytest.raises(Refused) as refused:
        call(control_socket(var), Acquire(id=1, preset="nope"))
    assert refused.value.code == "model_not_found"

    scheduler.send_signal(signal.SIGTERM)
    _, said = scheduler.communicate(timeout=60)

    assert scheduler.returncode == 0, said
    assert not control_socket(var).exists()
    assert call_fails(var)


def test_without_its_tables_it_ends_with_a_sentence():
    with short_var() as folder:
        ended = manage(folder, "runscheduler")

    assert ended.returncode != 0
    assert "run `manage.py migrate` first" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_second_one_refuses_with_a_sentence_and_hurts_nobody(var, scheduler):
    second = manage(var, "runscheduler")

    assert second.returncode != 0
    assert f"another scheduler (pid {scheduler.pid})" in second.stderr
    assert "Traceback" not in second.stderr
    assert answers(var)


def test_a_preset_saved_in_the_database_is_started_and_recorded(var, scheduler, tmp_path):
    model = tmp_path / "broken.gguf"
    model.write_bytes(b"no model")
    script = (
        "from models_registry.models import ModelFile, Preset\n"
        f"file = ModelFile.objects.create(path={str(model)!r})\n"
        "Preset.objects.create(name='broken', model_file=file)\n"
    )
    manage(var, "shell", "-c", script).check_returncode()

    def is_known() -> bool:
        try:
            call(control_socket(var), Load(id=1, preset="broken", wait=True), timeout=60)
        except Refused as refusal:
            return refusal.code == "model_load_failed"
        return False

    eventually(is_known, "the load was tried and failed", 60)

    def recorded() -> list[tuple[str, str]]:
        with sqlite3.connect(var / "corral.sqlite3") as database:
            rows = database.execute(
                "SELECT preset, reason FROM scheduler_instancerecord WHERE ended_at IS NOT NULL"
            ).fetchall()
        database.close()
        return rows

    assert eventually(recorded, "its end is in the record") == [("broken", "failed_to_load")]
    assert call(control_socket(var), Snapshot(id=1))["failures"][0]["preset"] == "broken"


def call_fails(var: Path) -> bool:
    try:
        call(control_socket(var), Ping(id=1))
    except Refused as refusal:
        return refusal.code == "scheduler_unavailable"
    return False
