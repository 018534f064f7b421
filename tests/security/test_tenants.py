"""A8, F2: with a usual key of one team, nothing of another's is read, ended or even known to be
there, by whatever id."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.security.conftest import House
from tests.support.asking import Answer

PROMPT = "REDS-ONLY-prompt"
CONVERSATION = "the-reds-conversation"
REQUEST = "the-reds-request"


def ask(
    house: House, method: str, path: str, body: Any = None, *, key: str, **headers: str
) -> Answer:
    return house.gateway.client.request(method, path, body, key=key, headers=headers)


@pytest.fixture(scope="module")
def reds_have_asked(house: House) -> Iterator[House]:
    """One conversation under way, whose id and request id the blues know."""
    body = {
        "model": "slow",
        "stream": True,
        "max_tokens": 4000,
        "ignore_eos": True,
        "messages": [{"role": "user", "content": PROMPT}],
    }
    headers = {
        "X-Conversation-Id": CONVERSATION,
        "X-Request-Id": REQUEST,
        "Authorization": f"Bearer {house.reds}",
    }
    connection = http.client.HTTPConnection("127.0.0.1", house.port, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        assert connection.getresponse().readline()
        yield house
    ask(house, "DELETE", f"/v1/stream?conv_id={CONVERSATION}", key=house.reds)


def test_a_conversation_is_there_for_who_began_it_alone(reds_have_asked: House) -> None:
    house = reds_have_asked
    lookup = {"conversation_ids": [CONVERSATION]}

    theirs = ask(house, "POST", "/v1/streams/lookup", lookup, key=house.blues)
    own = ask(house, "POST", "/v1/streams/lookup", lookup, key=house.reds)
    resumed = ask(house, "GET", f"/v1/stream?conv_id={CONVERSATION}", key=house.blues)
    stopped = ask(house, "DELETE", f"/v1/stream?conv_id={CONVERSATION}", key=house.blues)
    unknown = ask(house, "GET", "/v1/stream?conv_id=never-was", key=house.blues)
    still = ask(house, "POST", "/v1/streams/lookup", lookup, key=house.reds)

    assert (theirs.json, len(own.json)) == ([], 1)
    assert (
        (resumed.status, resumed.code)
        == (unknown.status, unknown.code)
        == (410, "conversation_lost")
    )
    assert stopped.status == 204  # whatever the id
    assert not still.json[0]["is_done"]


def test_the_same_id_is_another_conversation(reds_have_asked: House) -> None:
    house = reds_have_asked
    mine = {"model": "beta", "stream": True, "max_tokens": 2, "prompt": "x"}

    answer = ask(house, "POST", "/v1/completions", mine, key=house.blues,
                 **{"X-Conversation-Id": CONVERSATION})  # fmt: skip
    still = ask(
        house, "POST", "/v1/streams/lookup", {"conversation_ids": [CONVERSATION]}, key=house.reds
    )

    assert answer.status == 200
    assert not still.json[0]["is_done"]


def test_what_they_may_not_use_is_not_there_for_them(house: House) -> None:
    """By name, by alias spelling, with a tag, in another case; in every list and every dialect."""
    listed = ask(house, "GET", "/v1/models", key=house.blues)

    assert [each["id"] for each in listed.json["data"]] == ["beta"]
    for name in ("alpha", "alpha:latest", "ALPHA", " alpha", "alpha ", "./alpha", "alpha\n"):
        for path, body in (
            ("/v1/completions", {"prompt": "x"}),
            ("/v1/messages", {"max_tokens": 1, "messages": []}),
            ("/api/generate", {"prompt": "x"}),
            ("/tokenize", {"content": "x"}),
        ):
            answer = ask(house, "POST", path, {"model": name, **body}, key=house.blues)
            nowhere = ask(house, "POST", path, {"model": "no-such", **body}, key=house.blues)
            assert answer.status == nowhere.status in (400, 404), (path, name)
            assert b"not found" in answer.body or b"no model" in answer.body, (path, name)
            assert "there is 'alpha'" not in answer.body.decode(), (path, name)
    for path in ("/models/alpha", "/v1/models/alpha", "/slots?model=alpha", "/props?model=alpha",
                 "/metrics?model=alpha"):  # fmt: skip
        answer = ask(house, "GET", path, key=house.blues)
        assert (answer.status, answer.code) in ((400, "model_not_found"), (404, "model_not_found"))
    assert b"alpha" not in ask(house, "GET", "/api/tags", key=house.blues).body


def test_two_names_in_one_body_are_no_way_around(house: House) -> None:
    for body in (
        b'{"model":"beta","model":"alpha","prompt":"x"}',
        b'{"model":"beta","mod\\u0065l":"alpha","prompt":"x"}',
    ):
        assert ask(house, "POST", "/v1/completions", body, key=house.blues).status == 400
    answer = ask(house, "POST", "/v1/completions?model=alpha", {"model": "beta", "prompt": "x",
                 "max_tokens": 1}, key=house.blues)  # fmt: skip
    assert (answer.status, answer.json["model"]) == (200, "beta")


def test_a_usual_key_changes_nothing(house: House) -> None:
    for method, path, body in (
        ("POST", "/models/load", {"model": "beta"}),
        ("POST", "/models/unload", {"model": "beta"}),
        ("POST", "/models", {"model": "user/repo"}),
        ("DELETE", "/models?model=beta", None),
        ("POST", "/api/pull", {"model": "user/repo"}),
        ("POST", "/api/create", {"model": "x", "from": "beta"}),
        ("POST", "/api/copy", {"source": "beta", "destination": "x"}),
        ("DELETE", "/api/delete", {"model": "beta"}),
        ("POST", f"/api/blobs/sha256:{'0' * 64}", b"x"),
        ("PATCH", "/router/api/presets/beta", {"extra_options": "top-k = 1"}),
        ("POST", "/router/api/presets/beta/load", None),
        ("POST", "/router/api/keys", {"name": "x", "scopes": ["admin"]}),
    ):
        answer = ask(house, method, path, body, key=house.blues)
        assert answer.status == 403, (method, path, answer.status, answer.body)


def test_usage_and_metrics_are_ones_own(reds_have_asked: House) -> None:
    house = reds_have_asked
    requests = "/router/api/usage/requests"
    for path in (
        f"{requests}?request_id={REQUEST}",
        f"{requests}?team=reds",
        "/router/api/usage/totals?team=reds",
        "/router/api/usage/totals?by=team",
        requests,
    ):
        answer = ask(house, "GET", path, key=house.blues)
        assert answer.status in (200, 400, 403, 404, 422), path
        told = json.dumps(answer.json)
        assert PROMPT not in told
        assert (
            "reds" not in told.replace(REQUEST, "").replace("team=reds", "") or answer.status != 200
        )
    assert ask(house, "GET", "/metrics", key=house.blues).status == 403


def test_a_refusal_tells_nothing_of_who_is_there(house: House) -> None:
    """The same words for another team's key, record or model as for one that never was."""
    for mine, nobody in (
        ("/router/api/keys/" + house.reds.split("_")[1], "/router/api/keys/aaaaaaaa"),
        ("/router/api/teams/2", "/router/api/teams/999"),
    ):
        told = [ask(house, "GET", path, key=house.blues) for path in (mine, nobody)]
        assert (told[0].status, told[0].body) == (told[1].status, told[1].body)


def test_a_request_of_the_same_id_touches_nothing_of_the_others(reds_have_asked: House) -> None:
    """Clients may name their requests: the scheduler, limits and records go by such names."""
    house = reds_have_asked
    lookup = {"conversation_ids": [CONVERSATION]}
    headers = {"X-Request-Id": REQUEST}

    for _ in range(3):
        body = {"model": "beta", "prompt": "x", "max_tokens": 1}
        answer = ask(house, "POST", "/v1/completions", body, key=house.blues, **headers)
        assert answer.status == 200

    still = ask(house, "POST", "/v1/streams/lookup", lookup, key=house.reds)
    own = ask(house, "GET", f"/router/api/usage/requests?request_id={REQUEST}", key=house.blues)
    assert not still.json[0]["is_done"]
    assert "slow" not in own.body.decode()
