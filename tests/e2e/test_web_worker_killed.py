"""Scenario 13: one of two web processes killed with many leases, some of them not streamed."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import pytest

from tests.support.asking import CHAT, Ending, Stream, chat_body, whole
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.polling import eventually
from tests.support.processes import busy_slots

pytestmark = [pytest.mark.engine, pytest.mark.slow]

STREAMS, ANSWERS, OTHERS = 12, 8, 3
"""Of the worker that is killed: its streams, and its answers that are not streamed; and the
streams of the other."""
SLOTS = STREAMS + ANSWERS + OTHERS + 1
SHORT, LONG, ENDLESS = 60, 450, 470  # tokens; a slot holds 512


@pytest.fixture
def two_workers(tmp_path: Path) -> Iterator[Gateway]:
    args = ["-np", str(SLOTS), "-c", str(SLOTS * 512)]
    with gateway(tmp_path, args=args, workers=2, models={"slow": SLOW}) as running:
        assert whole(running.client.chat("slow"))
        yield running


def test_scenario_13_its_leases_end_with_their_slots_and_the_others_are_untouched(
    two_workers: Gateway,
) -> None:
    victim, other = sorted(process.pid for process in two_workers.processes("web"))
    child = two_workers.child_of("slow")
    with ExitStack() as stack, ThreadPoolExecutor(OTHERS) as pool:

        def asked_of(worker: int, **fields: object) -> http.client.HTTPConnection:
            connection = stack.enter_context(closing(_connection_to(two_workers, worker)))
            body = json.dumps(chat_body("slow", **fields))
            connection.request("POST", CHAT, body, _headers(two_workers))
            return connection

        def begun(worker: int, tokens: int) -> Stream:
            response = asked_of(worker, stream=True, max_tokens=tokens).getresponse()
            stream = Stream(stack.enter_context(response))
            assert stream.next_event() is not None
            return stream

        untouched = [begun(other, LONG) for _ in range(OTHERS)]
        cut = [begun(victim, ENDLESS) for _ in range(STREAMS)]
        for _ in range(ANSWERS):
            asked_of(victim, max_tokens=SHORT)
        busy = STREAMS + ANSWERS + OTHERS
        eventually(lambda: busy_slots(child) == busy, f"{busy} answers are under way")
        assert _counted(two_workers) == (busy, 0)
        reading = [pool.submit(stream.to_end) for stream in untouched]

        os.kill(victim, signal.SIGKILL)

        # The child frees the slot of a stream that nobody reads; the other answers it works out
        eventually(lambda: _counted(two_workers)[1] > 0, "its leases are abandoned")
        eventually(lambda: _counted(two_workers) == (OTHERS, 0), "only the other's are left", 60)
        assert busy_slots(child) <= OTHERS
        endings: list[Ending] = [ending.result(120) for ending in reading]
        assert all(stream.to_end().explicit_error for stream in cut)

    assert all(ending.finished for ending in endings)
    eventually(lambda: _counted(two_workers) == (0, 0), "no lease is left")
    assert two_workers.child_of("slow") == child


def _counted(running: Gateway) -> tuple[int, int]:
    """All leases, and those of them that are abandoned."""
    instance = running.instance_of("slow")
    return instance["leases"], instance["abandoned"]


def _headers(running: Gateway) -> dict[str, str]:
    return {"Authorization": f"Bearer {running.key}", "Content-Type": "application/json"}


def _connection_to(running: Gateway, worker: int) -> http.client.HTTPConnection:
    """The kernel gives a connection to whichever worker takes it: tried until it is this one."""
    workers = [psutil.Process(process.pid) for process in running.processes("web")]
    for _ in range(500):
        connection = http.client.HTTPConnection("127.0.0.1", running.client.port, timeout=60)
        connection.connect()
        port = connection.sock.getsockname()[1]
        taken_by = eventually(lambda port=port: _holder(workers, port), "somebody takes it")
        if taken_by == worker:
            return connection
        connection.close()
    raise AssertionError(f"worker {worker} takes no connection")


def _holder(workers: list[psutil.Process], port: int) -> int:
    for worker in workers:
        taken = worker.net_connections("tcp4")
        if any(connection.raddr and connection.raddr.port == port for connection in taken):
            return worker.pid
    return 0
