"""Models that hang while a whole gateway is at work: what their clients see of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.asking import whole
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

TOKENS = 150  # a second or two


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    env = {"CORRAL_HEALTH_EVERY": "0.5", "CORRAL_EVENT_LOG": "1"}
    folder = tmp_path_factory.mktemp("watched")
    with gateway(folder, env=env, models={"slow": SLOW}) as running:
        yield running


def hang(watched: Gateway) -> int:
    child = watched.child_of("slow")
    os.kill(child.pid, signal.SIGSTOP)
    return child.pid


def works(watched: Gateway, besides: int = 0) -> bool:
    """A child other than that one has the request."""
    return any(
        instance["state"] == "loaded" and instance["leases"] and instance["pid"] != besides
        for instance in watched.snapshot()["instances"]
    )


def test_a_request_without_a_byte_of_an_answer_gets_it_from_another_child(watched: Gateway) -> None:
    assert whole(watched.client.chat("slow", max_tokens=2))
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(watched.client.chat, "slow", max_tokens=TOKENS)
        eventually(lambda: works(watched), "it works")
        pid = hang(watched)

        assert whole(asked.result(60))
    assert watched.child_of("slow").pid != pid


def test_a_stream_that_has_begun_ends_with_an_error_and_never_looks_whole(
    watched: Gateway,
) -> None:
    with watched.client.stream("slow", max_tokens=2000) as stream:
        stream.next_event()
        hang(watched)
        ending = stream.to_end()

    assert ending.explicit_error
    assert [error["code"] for error in ending.errors] == ["model_stopped"]
    assert "hung" in ending.errors[0]["message"]


def test_a_request_that_saw_two_children_hang_is_not_blamed_for_a_crash(watched: Gateway) -> None:
    assert whole(watched.client.chat("slow", max_tokens=2))
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(watched.client.chat, "slow", max_tokens=TOKENS)
        eventually(lambda: works(watched), "it works")
        first = hang(watched)
        eventually(lambda: works(watched, besides=first), "another child works", 60)
        hang(watched)
        refused = asked.result(60)

    assert refused.status == 503
    assert refused.code == "model_stopped"
    assert whole(watched.client.chat("slow", max_tokens=2))


def test_why_it_ended_is_on_record_and_all_of_it_can_be_decided_again(watched: Gateway) -> None:
    with watched.client.stream("slow", max_tokens=2000) as stream:
        stream.next_event()
        hang(watched)
        stream.to_end()
    watched.django(
        "from scheduler.models import InstanceRecord as I;"
        "assert I.objects.filter(reason='hung', signal=9).exists(), I.objects.values()"
    )
    [part] = sorted(Path(watched.var, "logs").glob("events-*.jsonl"))
    eventually(lambda: b"Silent" in part.read_bytes(), "it is written down")

    done = watched.manage("replay", str(part))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Kill hung" in done.stdout
