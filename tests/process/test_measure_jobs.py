"""Measuring in the running product: the scheduler orders, the jobs process measures and reports."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.client import call
from scheduler.protocol import Refused, Snapshot
from scheduler.run_folder import control_socket
from tests.support.polling import eventually
from tests.support.prepared import MANAGE, clean_environment, first_state, rows
from tests.support.processes import Process, processes_of
from tests.support.tiny_model import broken, tiny_model

from .running import short_var

pytestmark = pytest.mark.slow

FAKE = Path(__file__).with_name("fake_measuring_server.py")
MIB = 1 << 20


class Product:
    """Scheduler and jobs, each a process, on one throw-away state."""

    def __init__(self, var: Path, models: Path, engine: str = str(FAKE)) -> None:
        self.var = var
        self.models = models
        self.models.mkdir(exist_ok=True)
        self.environment = clean_environment() | {
            "CORRAL_VAR": str(var),
            "CORRAL_MODELS_DIR": str(models),
            "CORRAL_LLAMA_SERVER": engine,
        }

    def manage(self, *arguments: str) -> str:
        return subprocess.run(
            [sys.executable, str(MANAGE), *arguments],
            env=self.environment, capture_output=True, text=True, timeout=120, check=True,
        ).stdout  # fmt: skip

    @contextlib.contextmanager
    def running(self, command: str) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen([sys.executable, str(MANAGE), command], env=self.environment)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def add(self, name: str, flags: str = "") -> Path:
        """A model file, with what its child does; registered."""
        path = tiny_model(self.models, name)
        Path(f"{path}.flags").write_text(flags)
        self.manage("rescan")
        return path

    def row(self, name: str) -> tuple[str, str, int]:
        """The newest one's state, error and attempts; of a preset without a row, nothing."""
        query = "SELECT preset, state, error, attempts FROM models_registry_measurement ORDER BY id"
        found = {preset: told for preset, *told in rows(self.var, query)}
        state, error, attempts = found.get(name, ("", "", 0))
        return state, error, attempts

    def figures(self) -> dict[str, dict[str, int]]:
        try:
            return call(control_socket(self.var), Snapshot(id=1))["measured"]
        except Refused:
            return {}

    def children(self) -> list[Process]:
        return [process for process in processes_of(self.var) if process.role == "measure"]


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    with short_var() as var:
        found = Product(var, tmp_path / "models")
        first_state(var)
        yield found
        eventually(lambda: not processes_of(var), "no process is left")


def test_a_new_preset_is_measured_without_anybody_asking(product: Product) -> None:
    product.add("good")
    product.add("bad", "--exit-code 7")
    with product.running("runscheduler"), product.running("runjobs"):
        eventually(lambda: product.figures() == {"good": {"Host": 197 * MIB}}, "measured", 60)
        eventually(lambda: product.row("bad")[0] == "failed", "the other has failed", 60)

    assert product.row("good")[0] == "measured"
    assert "exit code 7" in product.row("bad")[1]


def test_a_restarted_scheduler_knows_what_was_measured_before(product: Product) -> None:
    product.add("good")
    with product.running("runscheduler"), product.running("runjobs"):
        eventually(product.figures, "measured", 60)
    with product.running("runscheduler"):
        eventually(lambda: product.figures() == {"good": {"Host": 197 * MIB}}, "known", 60)


def test_a_changed_file_is_measured_again(product: Product) -> None:
    path = product.add("good")
    with product.running("runscheduler"), product.running("runjobs"):
        eventually(product.figures, "measured", 60)
        Path(f"{path}.flags").write_text("--captured fit-0.3.36-too-big.txt")
        tiny_model(product.models, "good", seed=1)

        eventually(
            lambda: product.figures() == {"good": {"Host": 89955 * MIB}}, "measured anew", 60
        )


def test_a_person_may_have_it_measured_again(product: Product) -> None:
    path = product.add("good")
    with product.running("runscheduler"), product.running("runjobs"):
        eventually(product.figures, "measured", 60)
        Path(f"{path}.flags").write_text("--captured fit-0.3.36-too-big.txt")
        product.manage(
            "shell", "--no-imports", "-c",
            "from models_registry import ports; ports.scheduler().measure('good')",
        )  # fmt: skip

        eventually(
            lambda: product.figures() == {"good": {"Host": 89955 * MIB}}, "measured anew", 60
        )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_jobs_process_ended_in_the_middle_leaves_no_child_and_a_row_that_is_taken_up_again(
    product: Product, tmp_path: Path, number: signal.Signals
) -> None:
    gate = tmp_path / "gate"
    product.add("good", f"--until {gate}")
    with product.running("runscheduler"):
        with product.running("runjobs") as jobs:
            eventually(product.children, "it is being measured", 60)
            os.kill(jobs.pid, number)
            jobs.wait(60)
            eventually(lambda: not product.children(), "its child went with it")
        assert product.row("good")[0] == "pending"

        gate.touch()
        with product.running("runjobs"):
            eventually(lambda: product.figures() == {"good": {"Host": 197 * MIB}}, "measured", 60)

    assert product.row("good")[2] == 2


@pytest.mark.engine
def test_a_real_engine_measures_sound_files_and_says_what_is_wrong_with_others(
    product: Product,
) -> None:
    del product.environment["CORRAL_LLAMA_SERVER"]
    tiny_model(product.models, "sound")
    broken(product.models, "broken")
    product.manage("rescan")
    with product.running("runscheduler"), product.running("runjobs"):
        eventually(lambda: product.figures().keys() == {"sound"}, "measured", 60)
        eventually(lambda: product.row("broken")[0] == "unreadable", "the other is refused", 60)
