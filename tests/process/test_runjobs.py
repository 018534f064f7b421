"""The jobs process: a real consumer, on a throw-away state."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.polling import eventually
from tests.support.prepared import MANAGE, clean_environment, first_state, rows
from tests.support.tiny_model import tiny_model

pytestmark = pytest.mark.slow


class Jobs:
    def __init__(self, folder: Path) -> None:
        self.models = folder / "models"
        self.models.mkdir()
        self.var = folder / "var"
        self.environment = clean_environment() | {
            "CORRAL_VAR": str(self.var),
            "CORRAL_MODELS_DIR": str(self.models),
        }

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, str(MANAGE), *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return done.stdout

    def shell(self, code: str) -> str:
        return self.manage("shell", "--no-imports", "-c", code)

    def presets(self) -> set[str]:
        return {name for (name,) in rows(self.var, "SELECT name FROM models_registry_preset")}

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(MANAGE), "runjobs"],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    found = Jobs(tmp_path)
    first_state(found.var)
    return found


@pytest.fixture
def running(jobs: Jobs) -> Iterator[subprocess.Popen[str]]:
    process = jobs.start()
    assert process.stdout
    try:
        assert process.stdout.readline().startswith("jobs run")
        yield process
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()


def test_a_rescan_asked_for_in_one_process_is_done_in_the_jobs_process(
    jobs: Jobs, running: subprocess.Popen[str]
) -> None:
    tiny_model(jobs.models, "found")

    jobs.shell("from models_registry.jobs import rescan; rescan()")

    eventually(lambda: "found" in jobs.presets(), "the new model is offered", 60)


def test_what_was_asked_for_while_no_jobs_process_ran_is_done_later(jobs: Jobs) -> None:
    tiny_model(jobs.models, "found")
    jobs.shell("from models_registry.jobs import rescan; rescan()")

    process = jobs.start()
    try:
        eventually(lambda: "found" in jobs.presets(), "the new model is offered", 60)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_clean(running: subprocess.Popen[str], number: signal.Signals) -> None:
    running.send_signal(number)

    assert running.wait(30) == 0
