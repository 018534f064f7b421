"""Scenario 1: a model that clients keep busy for ever, and others who wait for its place."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.asking import Answer, whole
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

MAX_WAIT = 2.0
TOKENS = 60  # about a second of the slow model, three at once
SLACK = 5.0
"""Seconds that a busy machine may add to what the rules allow."""
MODELS = {"slow": SLOW, "beta": {"seed": 2}, "gamma": {"seed": 3}}


def test_scenario_1_who_waits_for_a_model_that_is_never_idle_is_answered_in_turn(
    tmp_path: Path,
) -> None:
    env = {"CORRAL_MAX_WAIT": str(MAX_WAIT)}
    args = ["--models-max", "1"]
    with (
        gateway(tmp_path, args=args, env=env, models=MODELS) as running,
        _kept_busy(running, "slow", clients=3) as busy,
        ThreadPoolExecutor(2) as pool,
    ):
        eventually(lambda: running.instance_of("slow").get("leases") == 3, "three are under way")
        beta = pool.submit(_timed, running, "beta")
        eventually(lambda: "beta" in _queued(running), "beta is waited for")
        gamma = pool.submit(_timed, running, "gamma")
        (b_answer, b_waited), (c_answer, c_waited) = beta.result(120), gamma.result(120)
        answered = len(busy.answers)
        eventually(lambda: len(busy.answers) >= answered + 3, "its own clients go on")

        assert whole(b_answer)
        assert whole(c_answer)
        assert _started(running)[:4] == ["slow", "beta", "gamma", "slow"]
        assert all(whole(answer) for answer, _ in busy.answers)
        drain = max(took for answer, took in busy.answers[:answered])
        load = max(_load_seconds(running))
        bound = MAX_WAIT + drain + load
        assert b_waited <= bound + SLACK
        assert c_waited <= 2 * bound + SLACK


def test_scenario_1_a_waiter_of_low_priority_is_served_under_a_stream_of_high_priority_ones(
    tmp_path: Path,
) -> None:
    jump = 2.0
    env = {"CORRAL_MAX_PRIORITY_JUMP": str(jump)}
    with gateway(tmp_path, args=["-np", "1"], env=env, models={"slow": SLOW}) as running:
        keys = {priority: _key_of_a_team(running, priority) for priority in ("high", "low")}
        with _kept_busy(running, "slow", clients=3, key=keys["high"]) as busy:
            eventually(lambda: len(busy.answers) >= 3, "the stream of requests is under way")
            answer, waited = _timed(running, "slow", key=keys["low"])
            served = len(busy.answers)
            eventually(lambda: len(busy.answers) >= served + 3, "the others go on")

    assert whole(answer)
    # Those who were there already, and those who come within the jump, go before it
    turn = max(took for _, took in busy.answers[:served])
    assert waited <= 2 * jump + 2 * turn + SLACK


@dataclass
class _Busy:
    answers: list[tuple[Answer, float]] = field(default_factory=list)
    """Each with the seconds that it took, the wait included."""


@contextmanager
def _kept_busy(running: Gateway, preset: str, *, clients: int, key: str = "") -> Iterator[_Busy]:
    """By clients that ask again as soon as they are answered, all the while."""
    busy, over = _Busy(), threading.Event()

    def ask_on() -> None:
        while not over.is_set():
            busy.answers.append(_timed(running, preset, key=key))

    threads = [threading.Thread(target=ask_on, name="busy client") for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield busy
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _timed(running: Gateway, preset: str, *, key: str = "") -> tuple[Answer, float]:
    began = time.monotonic()
    body = {"model": preset, "max_tokens": TOKENS, "ignore_eos": True}
    body["messages"] = [{"role": "user", "content": "Say something."}]
    answer = running.client.request("POST", "/v1/chat/completions", body, key=key or None)
    return answer, time.monotonic() - began


def _queued(running: Gateway) -> set[str]:
    return {entry["preset"] for entry in running.snapshot()["queue"]}


def _key_of_a_team(running: Gateway, priority: str) -> str:
    running.django(
        "from proxy.models import Team; "
        f"Team.objects.create(name='{priority}', priority='{priority}')"
    )
    return running.manage("createkey", "client", "--team", priority).stdout.splitlines()[-1]


def _record(running: Gateway, columns: str) -> list[tuple[str, ...]]:
    query = f"SELECT {columns} FROM scheduler_instancerecord ORDER BY started_at"
    with closing(sqlite3.connect(running.var / "corral.sqlite3", timeout=20)) as rows:
        return rows.execute(query).fetchall()


def _started(running: Gateway) -> list[str]:
    return [preset for (preset,) in _record(running, "preset")]


def _load_seconds(running: Gateway) -> list[float]:
    times = _record(running, "started_at, loaded_at")
    return [_at(loaded) - _at(started) for started, loaded in times if loaded]


def _at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
