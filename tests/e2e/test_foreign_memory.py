"""Another program takes memory, and gives it back."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.asking import whole
from tests.support.gateway import Gateway, gateway
from tests.support.managing import MIB, Manager
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.alone]

NOTICED = 2.0
"""Seconds after which it is known, at the latest."""
SLACK = 5.0
"""What a busy machine may add."""
ROOM, TAKEN = 1500, 1000
"""MiB that models may use at first, and that another program then takes. The large model needs
more than what is left, by as much as other programs of the machine may come and go meanwhile."""
LARGE = {"ctx_size": 110_000, "max_wait": 2.0}
HOLD = """
import sys
taken = bytearray(int(sys.argv[1]))
taken[::4096] = b"1" * len(taken[::4096])
print("taken", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def roomy(tmp_path: Path) -> Iterator[Gateway]:
    models = {"small": {"seed": 1}, "large": {"seed": 4, "blocks": 60}}
    env = {"CORRAL_CACHE_RAM": "0"}
    with gateway(tmp_path, args=["--models-max", "0"], env=env, models=models) as running:
        yield running


def test_a_model_waits_and_is_refused_while_another_program_uses_its_memory_and_others_go_on(
    roomy: Gateway,
) -> None:
    manage = Manager(roomy)
    manage.change("large", **LARGE)
    manage.until_measured("small", "large")
    _leave_room(manage)
    assert whole(roomy.client.chat("small"))
    before = manage.device()["external"]
    assert manage.fit("large")["now"]["kind"] == "host"

    with _another_program() as release, ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        eventually(
            lambda: _external(manage) >= before + 0.8 * TAKEN * MIB, "it is seen", NOTICED + SLACK
        )
        print(f"seen after {time.monotonic() - began:.2f} s")
        told = manage.fit("large")["now"]
        assert told["kind"] is None
        assert "programs other than Corral" in told["problem"]

        waiting = pool.submit(roomy.client.chat, "large")
        eventually(lambda: _holdup(roomy) == "memory", "it waits for memory")
        assert whole(roomy.client.chat("small"))
        refused = waiting.result(60)
        assert (refused.status, refused.code) == (503, "memory_in_use")
        assert int(refused.headers["retry-after"]) >= 1

        release()
        began = time.monotonic()
        eventually(
            lambda: _external(manage) <= before + 0.2 * TAKEN * MIB, "it has left", NOTICED + SLACK
        )
        print(f"gone after {time.monotonic() - began:.2f} s")
        assert whole(roomy.client.chat("large"))
    assert {instance["preset"] for instance in roomy.snapshot()["instances"]} == {"small", "large"}


def test_a_request_that_waits_for_its_memory_is_served_when_the_other_program_ends(
    roomy: Gateway,
) -> None:
    manage = Manager(roomy)
    manage.change("large", **LARGE | {"max_wait": 25.0})
    manage.until_measured("small", "large")
    _leave_room(manage)
    before = manage.device()["external"]

    with _another_program() as release, ThreadPoolExecutor(1) as pool:
        eventually(lambda: _external(manage) >= before + 0.8 * TAKEN * MIB, "it is seen")
        waiting = pool.submit(roomy.client.chat, "large")
        eventually(lambda: _holdup(roomy) == "memory", "it waits for memory")
        release()
        assert whole(waiting.result(60))


def _leave_room(manage: Manager) -> None:
    host = manage.device()
    margin = (host["total"] - host["external"]) // MIB - ROOM
    assert manage("PATCH", "/devices/Host", {"margin": margin}).status == 200
    eventually(lambda: manage.device()["margin"] == margin * MIB, "the margin counts")


def _external(manage: Manager) -> int:
    return int(manage.device()["external"])


def _holdup(running: Gateway) -> str:
    queue = running.snapshot()["queue"]
    return next((entry["holdup"] for entry in queue if entry["preset"] == "large"), "")


@contextmanager
def _another_program() -> Iterator:
    """Yields what makes it give back all and end; its memory is taken by then."""
    program = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(TAKEN * MIB)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def release() -> None:
        program.communicate(timeout=30)

    try:
        assert program.stdout
        assert program.stdout.readline() == "taken\n"
        yield release
    finally:
        program.kill()
        program.wait()
        for pipe in (program.stdin, program.stdout):
            if pipe is not None:
                pipe.close()
