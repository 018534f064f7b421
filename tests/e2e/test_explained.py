"""A request that waits: somebody can ask about it by its id, and who comes too much is told when to
come again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.support.asking import CHAT, Answer, chat_body, whole
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.any_server]

LONG = 3000  # tokens: about half a minute of the slow model


@pytest.fixture(scope="module")
def narrow(
    variant: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    models = {"alpha": {"seed": 1}, "slow": SLOW}
    folder = tmp_path_factory.mktemp("narrow")
    env = {"CORRAL_QUEUE_LIMIT_PER_TENANT": "2"}
    with gateway(folder, args=["--models-max", "1"], env=env, models=models, **variant) as running:
        yield running


@pytest.fixture(scope="module")
def manager(narrow: Gateway) -> str:
    """An admin key."""
    return narrow.admin_key


def test_a_request_that_waits_is_explained_by_its_id_until_it_has_its_answer(
    narrow: Gateway, manager: str
) -> None:
    def ask(path: str) -> Answer:
        return narrow.client.request("GET", f"/router/api{path}", key=manager)

    with ExitStack() as afterwards, narrow.client.stream("slow", max_tokens=LONG) as stream:
        stream.next_event()
        answers = afterwards.enter_context(_asked(narrow, "alpha", "mine-1"))
        eventually(lambda: ask("/queue").json["count"] == 1, "it waits")
        told = ask("/explain/mine-1").json
        [entry] = ask("/queue").json["items"]
        [waiter] = ask("/queue/alpha").json["items"]

    assert (told["state"], told["preset"], told["tenant"]) == ("waiting", "alpha", "default")
    assert (told["holdup"], told["turn"], told["position"]) == ("busy", 1, 1)
    assert 0 < told["drain_in"] <= 30
    assert told["seconds"] > 0
    assert "every model that could make way is answering" in told["why"]
    assert (entry["preset"], entry["holdup"]) == ("alpha", "busy")
    assert (waiter["request"], waiter["position"]) == ("mine-1", 1)
    assert all(whole(answer) for answer in answers)
    assert answers[0].headers["x-request-id"] == "mine-1"
    assert ask("/explain/mine-1").code == "not_found"


def test_a_request_that_is_being_answered_is_explained_with_its_instance(
    narrow: Gateway, manager: str
) -> None:
    with _asked(narrow, "slow", "mine-2", max_tokens=200):
        eventually(lambda: narrow.instance_of("slow").get("leases"), "it is being answered")
        told = narrow.client.request("GET", "/router/api/explain/mine-2", key=manager).json

    assert (told["state"], told["preset"]) == ("answering", "slow")
    assert told["instance"] == narrow.instance_of("slow")["instance"]


def test_a_team_with_too_many_waiting_is_told_when_to_come_again(narrow: Gateway) -> None:
    narrow.client.chat("slow")
    with ExitStack() as afterwards, narrow.client.stream("slow", max_tokens=LONG) as stream:
        stream.next_event()
        for id in ("w1", "w2"):
            afterwards.enter_context(_asked(narrow, "alpha", id))
        eventually(lambda: _waiters(narrow) == 2, "two wait")
        refused = narrow.client.chat("alpha")

    assert (refused.status, refused.code) == (429, "tenant_queue_full")
    assert int(refused.headers["retry-after"]) >= 1
    assert "x-should-retry" not in refused.headers


def _waiters(running: Gateway) -> int:
    return sum(entry["waiters"] for entry in running.snapshot()["queue"])


@contextmanager
def _asked(running: Gateway, model: str, id: str, **fields: Any) -> Iterator[list[Answer]]:
    """A client that asks in the background; at the end of the block it has its answer."""
    answers: list[Answer] = []

    def ask() -> None:
        body = chat_body(model, **fields)
        answers.append(running.client.request("POST", CHAT, body, headers={"X-Request-Id": id}))

    thread = threading.Thread(target=ask, name=id)
    thread.start()
    try:
        yield answers
    finally:
        thread.join(120)
