"""`serve` keeps its processes alive: one that dies or hangs is started again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.serving import served
from tests.support.gateway import Gateway, ollama_root
from tests.support.polling import eventually

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("restarts")
    with served(
        folder, "--web-workers", "2", "--ollama-port", "0", OLLAMA_LOAD_TIMEOUT="10m"
    ) as gateway:
        yield gateway


@pytest.mark.parametrize("role", ["web", "scheduler", "jobs"])
def test_a_process_that_was_killed_is_started_again(running: Gateway, role: str) -> None:
    number = len(running.processes(role))

    killed = running.kill(role)

    eventually(lambda: len(running.processes(role)) == number, f"{role} is back", 60)
    running.wait_ready()
    assert killed not in [process.pid for process in running.processes(role)]


def test_what_counts_of_ollamas_variables_is_said_once(running: Gateway) -> None:
    told = [line for line in running.output if "OLLAMA_LOAD_TIMEOUT" in line]

    assert [line.strip() for line in told] == [
        "OLLAMA_LOAD_TIMEOUT=10m counts as CORRAL_LOAD_STALL=600"
    ]


def test_ollamas_port_outlives_the_web_processes(running: Gateway) -> None:
    running.kill("web")
    eventually(lambda: len(running.processes("web")) == 2, "both are back", 60)
    running.wait_ready()

    answers = [ollama_root(running) for _ in range(4)]

    assert answers == [(200, b"Ollama is running")] * 4


def test_a_scheduler_that_hangs_is_killed_and_started_again(running: Gateway) -> None:
    hanging = running.pid("scheduler")
    os.kill(hanging, signal.SIGSTOP)

    eventually(lambda: hanging not in _pids(running), "the hanging one is gone", 60)

    running.wait_ready()
    assert any("does not answer" in line for line in running.output)


@pytest.mark.parametrize("role", ["web", "jobs"])
def test_one_that_hangs_is_killed_and_started_again(running: Gateway, role: str) -> None:
    """One of two web processes: the other one answers all that is asked over HTTP."""
    hanging = running.pid(role)
    number = len(running.processes(role))
    os.kill(hanging, signal.SIGSTOP)

    eventually(lambda: hanging not in _pids(running), "the hanging one is gone", 60)

    eventually(lambda: len(running.processes(role)) == number, f"{role} is back", 60)
    running.wait_ready()
    assert any(f"{role}" in line and "does not answer" in line for line in running.output)


def test_status_says_what_runs(running: Gateway) -> None:
    running.wait_ready()

    done = running.manage("status")

    assert done.returncode == 0
    assert f"127.0.0.1:{running.client.port} answers" in done.stdout
    assert f"scheduler pid {running.pid('scheduler')}" in done.stdout


def test_a_second_one_on_the_same_state_refuses(running: Gateway) -> None:
    before = _pids(running)

    second = running.manage("serve", "--port", "0")

    assert second.returncode == 1
    assert f"CORRAL_VAR={running.var}" in second.stderr
    assert _pids(running) == before


def test_a_port_that_is_taken_is_said_so(running: Gateway, tmp_path: Path) -> None:
    environment = dict(running.environment)
    running.environment["CORRAL_VAR"] = str(tmp_path)
    try:
        second = running.manage("serve", "--port", str(running.client.port))
    finally:
        running.environment.update(environment)

    assert second.returncode == 1
    assert f"port {running.client.port} on 127.0.0.1 is taken" in second.stderr


def _pids(running: Gateway) -> set[int]:
    return {process.pid for process in running.processes()}
