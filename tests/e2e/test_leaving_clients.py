"""Clients that leave before their answer is whole."""

from __future__ import annotations

import http.client
import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.asking import CHAT, chat_body
from tests.support.gateway import Gateway
from tests.support.polling import eventually
from tests.support.processes import busy_slots

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.one_worker]

LONG = 3000  # tokens: about half a minute of the slow model
SHORT = 200  # a second or two
LONG_PROMPT = [{"role": "user", "content": "one two three four " * 700}]  # is read for seconds


@pytest.fixture(autouse=True)
def quiet(shared: Gateway) -> None:
    """The slow model is loaded, and nobody asks it anything."""
    shared.client.chat("slow")
    eventually(lambda: _counted(shared) == 0, "no lease is left from before", seconds=60)


def test_leaving_a_begun_stream_at_any_point_frees_the_slot_within_a_second(
    shared: Gateway,
) -> None:
    child = shared.child_of("slow")
    chance = random.Random(20)
    for _ in range(20):
        with shared.client.stream("slow", max_tokens=LONG) as stream:
            for _ in range(chance.randint(1, 20)):
                stream.next_event()
            time.sleep(chance.random() / 50)  # anywhere between two events
            assert busy_slots(child) == 1

        eventually(lambda: busy_slots(child) == 0, "the slot is free", seconds=1)
        eventually(lambda: _counted(shared) == 0, "the lease has ended", seconds=1)


def test_leaving_an_answer_that_is_not_streamed_leaves_a_lease_that_is_counted(
    shared: Gateway,
) -> None:
    with _asked(shared, max_tokens=LONG // 6):
        eventually(lambda: busy_slots(shared.child_of("slow")) == 1, "the child works")

    eventually(lambda: shared.instance_of("slow")["abandoned"] == 1, "one lease is abandoned")


def test_leaving_an_answer_that_is_not_streamed_does_not_stop_the_child(shared: Gateway) -> None:
    child = shared.child_of("slow")
    with _asked(shared, max_tokens=SHORT):
        eventually(lambda: busy_slots(child) == 1, "the child works")

    eventually(lambda: _counted(shared) == 0, "the lease has ended")
    assert shared.child_of("slow") == child


def test_an_abandoned_lease_does_not_end_before_the_slot_is_idle(shared: Gateway) -> None:
    child = shared.child_of("slow")
    with _asked(shared, max_tokens=SHORT):
        eventually(lambda: busy_slots(child) == 1, "the child works")

    eventually(lambda: _counted(shared) == 0, "the lease has ended")
    assert busy_slots(child) == 0


def test_a_stream_left_before_its_first_byte_is_counted_until_its_slot_is_idle(
    shared: Gateway,
) -> None:
    child = shared.child_of("slow")
    with _asked(shared, stream=True, max_tokens=LONG, messages=LONG_PROMPT):
        eventually(lambda: busy_slots(child) == 1, "the child reads the prompt")

    eventually(lambda: shared.instance_of("slow")["abandoned"] == 1, "one lease is abandoned")
    assert busy_slots(child) == 1
    eventually(lambda: _counted(shared) == 0, "the lease has ended", seconds=60)
    eventually(lambda: busy_slots(child) == 0, "the slot is free")


def test_a_client_that_leaves_while_its_model_loads_leaves_no_lease(shared: Gateway) -> None:
    shared.unload_all()
    with _asked(shared, max_tokens=LONG):
        eventually(lambda: shared.instance_of("slow"), "the load has begun")

    eventually(lambda: shared.instance_of("slow").get("state") == "loaded", "the load is finished")
    assert _counted(shared) == 0


def _counted(running: Gateway) -> int:
    """Leases of the slow model, whether their clients are still there or not."""
    instance = running.instance_of("slow")
    return instance["leases"] if instance else 0


@contextmanager
def _asked(running: Gateway, **fields: Any) -> Iterator[None]:
    """A client that has sent its question and leaves at the end of the block."""
    connection = http.client.HTTPConnection("127.0.0.1", running.client.port, timeout=30)
    body = json.dumps(chat_body("slow", **fields))
    headers = {"Authorization": f"Bearer {running.key}", "Content-Type": "application/json"}
    try:
        connection.request("POST", CHAT, body, headers)
        yield
    finally:
        connection.close()
