"""Scenario 6, but for its conversation (test_conversations_survive.py): the scheduler killed with
all that it may have in hand."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.asking import Answer, Ending, whole
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

DEEP = {"seed": 5, "blocks": 400}  # loads for half a second
STREAMS, WAITERS = 3, 5
TOKENS = 600  # several seconds of the slow model, three at once


def test_scenario_6_streams_are_told_and_waiters_are_served_by_the_next_scheduler(
    tmp_path: Path,
) -> None:
    models = {"slow": SLOW, "deep": DEEP}
    args = ["--models-max", "2", "-np", str(STREAMS), "-c", "6144"]
    with gateway(tmp_path, args=args, models=models) as running, ThreadPoolExecutor(9) as pool:
        streams = _streams(running, pool)
        waiting = [pool.submit(running.client.chat, "slow") for _ in range(WAITERS)]
        eventually(lambda: _waiters(running, "slow") == WAITERS, "all slots are taken, five wait")
        loading = pool.submit(running.client.chat, "deep")
        eventually(lambda: len(running.children()) == 2, "a child loads")
        children = {child.pid for child in running.children()}

        running.kill("scheduler")

        eventually(lambda: not {p.pid for p in running.processes()} & children, "no child is left")
        endings = [stream.result(120) for stream in streams]
        answers: list[Answer] = [asked.result(120) for asked in (*waiting, loading)]

    assert all(ending.explicit_error and ending.errors for ending in endings), endings
    assert all(whole(answer) for answer in answers), answers


def _streams(running: Gateway, pool: ThreadPoolExecutor) -> list[Future[Ending]]:
    """Each has begun when this returns."""
    begun = threading.Barrier(STREAMS + 1)

    def stream() -> Ending:
        with running.client.stream("slow", max_tokens=TOKENS) as answer:
            answer.next_event()
            begun.wait(60)
            return answer.to_end()

    streams = [pool.submit(stream) for _ in range(STREAMS)]
    begun.wait(60)
    return streams


def _waiters(running: Gateway, preset: str) -> int:
    queue = running.snapshot()["queue"]
    return sum(entry["waiters"] for entry in queue if entry["preset"] == preset)
