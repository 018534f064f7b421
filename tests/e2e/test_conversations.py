"""Conversations with the real engine, whatever serves: a client may lose its connection and come
back, also to another worker."""

from __future__ import annotations

import uuid

import pytest

from tests.support.asking import whole
from tests.support.conversing import (
    DONE,
    all_bytes,
    asked,
    first_bytes,
    has_ended,
    looked_up,
    resumed,
    stopped,
    text_of,
)
from tests.support.gateway import Gateway
from tests.support.polling import eventually
from tests.support.processes import busy_slots

pytestmark = [pytest.mark.engine, pytest.mark.slow]

SHORT, LONG = 80, 3000  # tokens: less than a second, and half a minute of the slow model


@pytest.fixture
def id(shared: Gateway) -> str:
    assert whole(shared.client.chat("slow"))
    return f"{uuid.uuid4()}::slow"


def test_a_stream_goes_on_without_its_client_and_is_resumed_byte_for_byte(
    shared: Gateway, id: str
) -> None:
    with asked(shared.client, f"{id}-whole", "slow", max_tokens=SHORT) as undisturbed:
        expected = all_bytes(undisturbed)
    with asked(shared.client, id, "slow", max_tokens=SHORT) as connection:
        received = first_bytes(connection)
    rest = resumed(shared.client, id, len(received))
    again = resumed(shared.client, id)

    assert rest.headers["content-type"] == "text/event-stream"
    assert again.body == received + rest.body
    assert again.body.endswith(DONE)
    assert text_of(again.body) == text_of(expected)
    assert resumed(shared.client, id, len(again.body)).body == b""
    assert resumed(shared.client, f"{id}-whole").body == expected


def test_a_load_goes_on_without_its_client(shared: Gateway, id: str) -> None:
    shared.unload_all()
    with asked(shared.client, id, "slow"):
        eventually(lambda: shared.instance_of("slow"), "it is being loaded")
    seen: list[str] = []

    def answered() -> bytes:
        answer = resumed(shared.client, id)
        if answer.status == 200:
            return answer.body
        assert answer.code == "conversation_waiting"
        assert answer.headers["retry-after"] == "1"
        seen.append(answer.message)
        return b""

    assert eventually(answered, "the stream is there").endswith(DONE)
    assert set(seen) <= {"Stream owner model is loading, retry later"}


def test_a_stop_ends_a_generation_at_once(shared: Gateway, id: str) -> None:
    with asked(shared.client, id, "slow", max_tokens=LONG) as connection:
        response = connection.getresponse()
        response.read1(64)
        assert stopped(shared.client, id) == 204
        rest = response.read()

    assert DONE not in rest
    child = shared.child_of("slow")
    eventually(lambda: busy_slots(child) == 0, "the slot is free", seconds=5)
    eventually(lambda: shared.instance_of("slow")["leases"] == 0, "the lease has ended", seconds=5)
    assert resumed(shared.client, id).status == 410
    assert stopped(shared.client, id) == 204


def test_a_stop_ends_a_generation_whose_client_has_gone(shared: Gateway, id: str) -> None:
    with asked(shared.client, id, "slow", max_tokens=LONG) as connection:
        first_bytes(connection)
    child = shared.child_of("slow")
    assert busy_slots(child) == 1
    assert stopped(shared.client, id) == 204

    eventually(lambda: busy_slots(child) == 0, "the slot is free", seconds=5)
    eventually(lambda: shared.instance_of("slow")["leases"] == 0, "the lease has ended", seconds=5)


def test_a_newer_request_of_the_same_id_ends_the_older_one(shared: Gateway, id: str) -> None:
    with asked(shared.client, id, "slow", max_tokens=LONG) as older:
        cut = older.getresponse()
        cut.read1(64)
        with asked(shared.client, id, "slow", max_tokens=SHORT) as newer:
            expected = all_bytes(newer)
        assert DONE not in cut.read()

    assert resumed(shared.client, id).body == expected
    eventually(lambda: busy_slots(shared.child_of("slow")) == 0, "the slots are free", seconds=5)


def test_a_lookup_tells_of_all_of_a_page(shared: Gateway, id: str) -> None:
    page = id.split("::")[0]
    with asked(shared.client, id, "slow") as one, asked(shared.client, page, "alpha") as other:
        sizes = {id: len(all_bytes(one)), page: len(all_bytes(other))}
    found = looked_up(shared.client, page, "nobody")

    assert {name: held["total_bytes"] for name, held in found.items()} == sizes
    assert all(held["is_done"] for held in found.values())
    assert looked_up(shared.client, id).keys() == {id}


def test_an_unread_stream_makes_its_instance_the_last_to_go_and_outlives_it(
    shared: Gateway, id: str
) -> None:
    shared.unload_all()
    # Long enough that its client has left before the last of it is on its way to them
    with asked(shared.client, id, "alpha", max_tokens=800) as connection:
        received = first_bytes(connection)
    eventually(lambda: has_ended(shared.client, id), "it has ended")
    assert whole(shared.client.chat("beta"))
    # Another web process may ask before this one has told that the answer is over
    eventually(lambda: not shared.instance_of("beta")["leases"], "the answer is over")
    assert whole(shared.client.chat("gamma"))
    states = shared.models()
    assert (states["alpha"], states["beta"]) == ("loaded", "unloaded")
    shared.unload_all()
    kept = list(shared.var.glob("run/stream-*.kept"))
    assert kept
    held = looked_up(shared.client, id)[id]
    answer = resumed(shared.client, id)

    assert {each.stat().st_mode & 0o777 for each in kept} == {0o600}
    assert answer.body.startswith(received)
    assert answer.body.endswith(DONE)
    assert (held["is_done"], held["total_bytes"]) == (True, len(answer.body))
    assert resumed(shared.client, id, 100).body == answer.body[100:]
    stopped(shared.client, id)
    assert sum(each.exists() for each in kept) == len(kept) - 1
