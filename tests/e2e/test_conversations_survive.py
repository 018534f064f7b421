"""What conversations outlive, and what they do not: other tenants, the queue, killed processes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from proxy.sse import Tail
from tests.support import prepared
from tests.support.asking import whole
from tests.support.conversing import (
    DONE,
    asked,
    first_bytes,
    has_ended,
    looked_up,
    resumed,
    stopped,
)
from tests.support.gateway import KEY, SLOW, Gateway, gateway
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

SHORT, LONG = 80, 1500  # tokens of the slow model: less than a second, and a dozen seconds


@pytest.fixture(scope="module")
def one_at_a_time(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Room for one child."""
    folder: Path = tmp_path_factory.mktemp("conversations")
    models = {"slow": SLOW, "alpha": {"seed": 1}}
    with gateway(folder, args=["--models-max", "1"], models=models) as running:
        yield running


@pytest.fixture
def id(one_at_a_time: Gateway) -> str:
    one_at_a_time.wait_ready()
    assert whole(one_at_a_time.client.chat("slow"))
    return str(uuid.uuid4())


def test_another_key_neither_reads_nor_cuts_nor_finds_it(one_at_a_time: Gateway, id: str) -> None:
    client = one_at_a_time.client
    made = one_at_a_time.manage("createkey", "stranger")
    found = KEY.search(made.stdout)
    assert found, made
    stranger = found[0]
    with asked(client, id, "slow", max_tokens=SHORT) as connection:
        received = first_bytes(connection)
        assert resumed(client, id, key=stranger).status == 410
        assert stopped(client, id, key=stranger) == 204
        assert looked_up(client, id, key=stranger) == {}
    answer = resumed(client, id)

    assert answer.body.startswith(received)
    assert answer.body.endswith(DONE)


def test_a_stop_takes_who_waits_out_of_the_queue(one_at_a_time: Gateway, id: str) -> None:
    client = one_at_a_time.client
    with asked(client, f"{id}-busy", "slow", max_tokens=LONG) as busy:
        first_bytes(busy)
        with asked(client, id, "alpha") as waiting:
            eventually(lambda: one_at_a_time.snapshot()["queue"], "it waits")
            assert looked_up(client, id)[id]["is_done"] is False
            assert resumed(client, id).code == "conversation_waiting"
            assert stopped(client, id) == 204
            answer = waiting.getresponse()
            told = answer.read()
    stopped(client, f"{id}-busy")

    assert answer.status == 400
    assert b"request cancelled by a stop while the model was loading" in told
    assert one_at_a_time.snapshot()["queue"] == []
    assert resumed(client, id).status == 410


def test_a_stop_while_its_model_loads_reaches_the_client_or_cuts_its_stream(
    one_at_a_time: Gateway, id: str
) -> None:
    client = one_at_a_time.client
    one_at_a_time.unload_all()
    with asked(client, id, "slow", max_tokens=LONG) as waiting:
        eventually(lambda: one_at_a_time.instance_of("slow"), "it is being loaded")
        assert stopped(client, id) == 204
        answer = waiting.getresponse()
        told = answer.read()

    assert answer.status == 400 or DONE not in told
    assert resumed(client, id).status == 410
    eventually(lambda: not one_at_a_time.instance_of("slow").get("leases"), "no lease is left")


def test_who_waits_without_a_connection_has_no_busy_model_drained_and_is_served_after_it(
    one_at_a_time: Gateway, id: str
) -> None:
    client = one_at_a_time.client
    with asked(client, f"{id}-busy", "slow", max_tokens=LONG) as busy:
        first_bytes(busy)
        with asked(client, id, "alpha"):
            eventually(lambda: one_at_a_time.snapshot()["queue"], "it waits")
        eventually(
            lambda: one_at_a_time.snapshot()["queue"][0]["holdup"] == "detached",
            "its lost connection is seen",
        )
        stopped(client, f"{id}-busy")

    def answered() -> bytes:
        answer = resumed(client, id)
        return answer.body if answer.status == 200 else b""

    assert eventually(answered, "the stream is there").endswith(DONE)


def test_an_unread_stream_outlives_the_eviction_of_its_instance(
    one_at_a_time: Gateway, id: str
) -> None:
    client = one_at_a_time.client
    with asked(client, id, "slow", max_tokens=SHORT) as connection:
        received = first_bytes(connection)
    eventually(lambda: has_ended(client, id), "it has ended")
    assert whole(client.chat("alpha"))
    assert one_at_a_time.models()["slow"] == "unloaded"
    answer = resumed(client, id)

    assert answer.body.startswith(received)
    assert answer.body.endswith(DONE)


def test_a_generation_outlives_the_web_process_that_carried_it(
    one_at_a_time: Gateway, id: str
) -> None:
    client, began = one_at_a_time.client, datetime.now(UTC)
    with asked(client, id, "slow", max_tokens=SHORT * 4) as connection:
        received = first_bytes(connection)
        one_at_a_time.kill("web")
    one_at_a_time.wait_ready()
    answer = resumed(client, id)

    assert answer.body.startswith(received)
    assert answer.body.endswith(DONE)
    eventually(lambda: one_at_a_time.instance_of("slow")["leases"] == 0, "the lease has ended")
    query = (
        "SELECT read, answered, estimated, charged, code, status FROM proxy_usagerecord "
        f"WHERE stream AND at > '{began:%Y-%m-%d %H:%M:%S}'"
    )
    tail = Tail()
    tail.push(answer.body)
    told = tail.usage()
    recorded = eventually(lambda: prepared.rows(one_at_a_time.var, query), "its record")
    assert recorded == [(told.read, told.answered, False, True, "", 200)]
    assert told.answered


def test_scenario_6_a_conversation_does_not_outlive_the_scheduler(
    one_at_a_time: Gateway, id: str
) -> None:
    client = one_at_a_time.client
    with asked(client, id, "slow", max_tokens=LONG) as connection:
        first_bytes(connection)
    one_at_a_time.kill("scheduler")
    one_at_a_time.wait_ready()
    answer = resumed(client, id)

    assert (answer.status, answer.code) == (410, "conversation_lost")
    assert looked_up(client, id) == {}
