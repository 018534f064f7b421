"""SIGKILL to one process of a gateway that is at work: who notices, and what comes back."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.support.asking import Answer, Ending, whole
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.polling import eventually
from tests.support.processes import busy_slots

pytestmark = [pytest.mark.engine, pytest.mark.slow]

DEEP = {"seed": 5, "blocks": 400}  # loads for half a second
TOKENS = 150  # a second or two of the slow model, four at once
NO_ORPHAN_SECONDS = 2


@pytest.fixture(scope="module")
def mortal(
    variant: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    models = {"alpha": {"seed": 1}, "slow": SLOW, "deep": DEEP}
    with gateway(tmp_path_factory.mktemp("mortal"), models=models, **variant) as running:
        yield running


@pytest.fixture(autouse=True)
def whole_again(mortal: Gateway) -> None:
    """Everything runs, `slow` is loaded and idle: whatever the test before killed is back."""
    roles = {"scheduler", "web", "jobs"}
    eventually(lambda: {p.role for p in mortal.processes()} >= roles, "all are running", 60)
    mortal.wait_ready()
    assert whole(mortal.client.chat("slow"))
    eventually(lambda: busy_slots(mortal.child_of("slow")) == 0, "nothing is left from before")


@pytest.mark.any_server
def test_the_scheduler_killed_when_idle_leaves_no_child(mortal: Gateway) -> None:
    children = {child.pid for child in mortal.children()}
    assert children

    mortal.kill("scheduler")

    _gone(mortal, children)


def test_the_next_request_after_the_scheduler_was_killed_is_answered(mortal: Gateway) -> None:
    mortal.kill("scheduler")

    assert whole(mortal.client.chat("alpha"))


def test_the_scheduler_killed_during_answers_leaves_no_child_and_nobody_with_half_an_answer(
    mortal: Gateway,
) -> None:
    with _at_work(mortal) as work:
        children = {child.pid for child in mortal.children()}
        mortal.kill("scheduler")
        _gone(mortal, children)
        streams, answers = work.outcome()

    assert all(ending.finished or ending.explicit_error for ending in streams)
    # No byte of these had been sent: they were asked again by the gateway itself
    assert all(whole(answer) for answer in answers)


@pytest.mark.any_server
def test_the_scheduler_killed_while_a_child_loads_leaves_no_child(mortal: Gateway) -> None:
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(mortal.client.chat, "deep")
        child = eventually(lambda: _child(mortal, "deep"), "its child is there")

        mortal.kill("scheduler")

        _gone(mortal, {child})
        assert whole(asked.result())


@pytest.mark.one_worker
def test_a_child_killed_during_answers_leaves_nobody_with_half_an_answer(mortal: Gateway) -> None:
    with _at_work(mortal) as work:
        os.kill(_child(mortal, "slow"), signal.SIGKILL)
        streams, answers = work.outcome()

    assert all(ending.explicit_error and ending.errors for ending in streams)
    assert all(whole(answer) for answer in answers)


@pytest.mark.one_worker
def test_the_next_request_after_a_child_was_killed_is_answered(mortal: Gateway) -> None:
    os.kill(_child(mortal, "slow"), signal.SIGKILL)

    assert whole(mortal.client.chat("slow"))


@pytest.mark.any_server
def test_a_killed_child_is_reported_gone_until_the_next_load(mortal: Gateway) -> None:
    os.kill(_child(mortal, "slow"), signal.SIGKILL)

    eventually(lambda: mortal.models()["slow"] in ("unloaded", "failed"), "the list says so")


def test_the_web_process_killed_during_answers_leaves_nobody_with_half_an_answer(
    mortal: Gateway,
) -> None:
    with _at_work(mortal) as work:
        mortal.kill("web")
        streams, answers = work.outcome()

    assert all(ending.explicit_error for ending in streams)
    assert answers == []  # their connections broke


def test_every_web_process_that_was_killed_comes_back(
    mortal: Gateway, variant: dict[str, object]
) -> None:
    oldest = mortal.pid("web")

    os.kill(oldest, signal.SIGKILL)

    def others() -> set[int]:
        return {p.pid for p in mortal.processes("web")} - {oldest}

    eventually(lambda: len(others()) == variant["workers"], "as many as before", 60)
    assert whole(mortal.client.chat("slow"))


def test_leases_of_a_killed_web_process_end_with_their_slots(mortal: Gateway) -> None:
    with _at_work(mortal):
        mortal.kill("web")

    eventually(lambda: _counted(mortal) == 0, "no lease is left", 60)
    assert busy_slots(mortal.child_of("slow")) == 0


def test_the_web_process_killed_leaves_loaded_models_loaded(mortal: Gateway) -> None:
    child = _child(mortal, "slow")

    mortal.kill("web")

    assert whole(mortal.client.chat("slow"))
    assert _child(mortal, "slow") == child


@pytest.mark.any_server
def test_the_jobs_process_killed_disturbs_no_answer(mortal: Gateway) -> None:
    with _at_work(mortal) as work:
        mortal.kill("jobs")
        streams, answers = work.outcome()

    assert all(ending.finished for ending in streams)
    assert all(whole(answer) for answer in answers)


@pytest.mark.any_server
def test_the_jobs_process_comes_back(mortal: Gateway) -> None:
    killed = mortal.kill("jobs")

    eventually(lambda: [p for p in mortal.processes("jobs") if p.pid != killed], "it is back", 60)


@dataclass
class _Work:
    streams: list[Future[Ending]]
    answers: list[Future[Answer]]

    def outcome(self) -> tuple[list[Ending], list[Answer]]:
        """What each client saw; of a connection that broke before any answer, nothing."""
        answers = [answer for answer in self.answers if not answer.exception(timeout=120)]
        return [s.result(timeout=120) for s in self.streams], [a.result() for a in answers]


@contextmanager
def _at_work(running: Gateway) -> Iterator[_Work]:
    """Two streams that have begun and two answers that are not streamed, all of the slow model."""
    begun = threading.Barrier(3)

    def stream() -> Ending:
        with running.client.stream("slow", max_tokens=TOKENS) as answer:
            answer.next_event()
            begun.wait(60)
            return answer.to_end()

    def ask() -> Answer:
        return running.client.chat("slow", max_tokens=TOKENS)

    with ThreadPoolExecutor(4) as pool:
        work = _Work([pool.submit(stream) for _ in range(2)], [pool.submit(ask) for _ in range(2)])
        begun.wait(60)
        slow = running.child_of("slow")
        eventually(lambda: busy_slots(slow) == 4, "all four are under way")
        yield work


def _child(running: Gateway, preset: str) -> int:
    return next((child.pid for child in running.children() if child.preset == preset), 0)


def _gone(running: Gateway, pids: set[int]) -> None:
    eventually(
        lambda: not {p.pid for p in running.processes()} & pids,
        f"no orphan of {pids}",
        NO_ORPHAN_SECONDS,
    )


def _counted(running: Gateway) -> int:
    instance = running.instance_of("slow")
    return instance["leases"] if instance else 0
