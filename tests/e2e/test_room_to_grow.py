"""Replicas of a preset that is asked for more than it can answer, as far as there is room."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.asking import Stream, whole
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.managing import MIB, Manager
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

TOKENS = 600  # several seconds, longer with two at once


@pytest.fixture
def twice(tmp_path: Path) -> Iterator[tuple[Gateway, Manager]]:
    """A preset that may have two instances with one slot each."""
    env = {"CORRAL_CACHE_RAM": "0", "CORRAL_MEMORY_MARGIN": "0"}
    args = ["--models-max", "0"]
    with gateway(tmp_path, args=args, env=env, models={"slow": SLOW}) as running:
        manage = Manager(running)
        manage.change("slow", replicas=2, parallel=1, ctx_size=4096)
        manage.until_measured("slow")
        yield running, manage


def test_two_long_answers_run_on_two_instances_where_both_fit(
    twice: tuple[Gateway, Manager],
) -> None:
    running, _ = twice
    with ExitStack() as answers:
        streams = [_begun(answers, running) for _ in range(2)]
        assert sorted(each["leases"] for each in _instances(running)) == [1, 1]
        assert len(running.children()) == 2
        assert all(stream.to_end().finished for stream in streams)


def test_with_room_for_one_the_second_answer_waits_for_the_first(
    twice: tuple[Gateway, Manager],
) -> None:
    running, manage = twice
    need = manage.fit("slow")["empty"]["bytes"]["Host"]
    budget = need * 3 // 2 // MIB
    assert manage("PATCH", "/devices/Host", {"budget": budget}).status == 200
    eventually(lambda: manage.device()["budget"] == budget * MIB, "the budget counts")

    with ExitStack() as answers, ThreadPoolExecutor(1) as pool:
        first = _begun(answers, running)
        second = pool.submit(running.client.chat, "slow")
        eventually(lambda: running.snapshot()["queue"], "the second waits")
        assert len(_instances(running)) == 1
        assert first.to_end().finished
        assert whole(second.result(60))
    assert len(running.children()) == 1


def _begun(answers: ExitStack, running: Gateway) -> Stream:
    stream = answers.enter_context(running.client.stream("slow", max_tokens=TOKENS))
    assert stream.next_event() is not None
    return stream


def _instances(running: Gateway) -> list[dict[str, Any]]:
    return [each for each in running.snapshot()["instances"] if each["preset"] == "slow"]
