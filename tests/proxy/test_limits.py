"""What a limited caller's request reserves, and what its client is told of its limits."""

from __future__ import annotations

import json

import pytest

from proxy.callers import Caller
from proxy.limits.reserving import TOKENS_A_BLOB, answer_cap, prompt_tokens
from scheduler.charging import NO_CHARGE
from scheduler.protocol import Left, Limit, Rate, Refused

from .asking import Exchange, chat
from .fakes import Connection, Received

REQUESTS = Limit("r", requests=60)
TOKENS = Limit("t", whose="team", tokens=40_000)
RATE = Rate(Left(60, 41, 57.2), Left(40_000, 31_220, 60.0))
TOLD = {
    b"x-ratelimit-limit-requests": b"60",
    b"x-ratelimit-remaining-requests": b"41",
    b"x-ratelimit-reset-requests": b"58s",
    b"x-ratelimit-limit-tokens": b"40000",
    b"x-ratelimit-remaining-tokens": b"31220",
    b"x-ratelimit-reset-tokens": b"60s",
}


class Keys:
    def __init__(self, *limits: Limit) -> None:
        self.limits = limits

    def as_known(self, caller: Caller) -> Caller:
        return caller

    async def identify(self, headers: object, by_session: object = None) -> Caller:
        return Caller("blue", "aaaaaaaa", limits=self.limits)

    async def close(self) -> None:
        pass


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b"{}")


async def completes(received: Received, child: Connection) -> None:
    choice = {"index": 0, "text": "a", "message": {"content": "a"}, "finish_reason": "stop"}
    await child.answer(json.dumps({"choices": [choice]}).encode())


async def streams(received: Received, child: Connection) -> None:
    await child.begin("text/event-stream")
    await child.say(b'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: [DONE]\n\n')
    await child.finish()


async def dies(received: Received, child: Connection) -> None:
    pass


def rates(exchange: Exchange) -> dict[bytes, bytes]:
    return {name: value for name, value in exchange.headers if b"ratelimit" in name}


async def test_a_caller_without_limits_is_charged_nothing_and_told_nothing(house):
    async with house(answers, keys=Keys()) as h:
        exchange = await Exchange(h.app, body=chat()).end()

    assert h.scheduler.asked[0].charge == NO_CHARGE
    assert rates(exchange) == {}


async def test_where_no_limit_counts_tokens_the_body_is_not_looked_at(house):
    async with house(answers, keys=Keys(REQUESTS)) as h:
        await Exchange(h.app, body=chat(max_tokens=100)).end()

    charge = h.scheduler.asked[0].charge
    assert charge.limits == (REQUESTS,)
    assert (charge.prompt, charge.cap) == (0, 0)


@pytest.mark.parametrize(
    ("path", "said", "cap"),
    [
        ("/v1/chat/completions", {}, None),
        ("/v1/chat/completions", {"max_tokens": 100}, 100),
        ("/v1/chat/completions", {"max_completion_tokens": 7, "n": 3}, 21),
        ("/v1/responses", {"max_output_tokens": 9}, 9),
        ("/v1/messages", {"max_tokens": 5}, 5),
        ("/completion", {"n_predict": 11}, 11),
        ("/completion", {"n_predict": -1}, None),
        ("/v1/embeddings", {}, 0),
    ],
)
async def test_what_is_reserved_is_what_the_body_says(house, path, said, cap):
    body = chat(**said)
    async with house(answers, keys=Keys(TOKENS)) as h:
        await Exchange(h.app, path, body=body).end()

    charge = h.scheduler.asked[0].charge
    assert (charge.prompt, charge.cap) == (-(-len(body) // 4), cap)
    assert charge.id


async def test_ollamas_clients_reserve_by_their_own_words(house):
    async with house(answers, keys=Keys(TOKENS)) as h:
        body = {"model": "tiny", "prompt": "a", "options": {"num_predict": 13}, "stream": False}
        await Exchange(h.app, "/api/generate", body=json.dumps(body).encode()).end()

    assert h.scheduler.asked[0].charge.cap == 13


async def test_counting_tokens_uses_none(house):
    async with house(answers, keys=Keys(TOKENS)) as h:
        await Exchange(h.app, "/tokenize", body=chat(content="long " * 1000)).end()

    charge = h.scheduler.asked[0].charge
    assert (charge.prompt, charge.cap) == (0, 0)


async def test_a_try_that_got_nothing_is_charged_to_the_same_id(house):
    async with house(dies, answers, keys=Keys(TOKENS)) as h:
        exchange = await Exchange(h.app, body=chat()).end()
        first, second = h.scheduler.leases

    assert exchange.status == 200
    assert len({asked.charge.id for asked in h.scheduler.asked}) == 1
    assert (first.unanswered, first.forgone) == (True, False)
    assert not second.unanswered


async def test_who_does_not_ask_again_forgoes_its_place(house):
    async with house(dies, dies, keys=Keys(TOKENS)) as h:
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.status == 502
    assert [lease.forgone for lease in h.scheduler.leases] == [False, True]


@pytest.mark.parametrize("script", [answers, streams])
async def test_answers_say_what_is_left(house, script):
    async with house(script, keys=Keys(REQUESTS, TOKENS)) as h:
        h.scheduler.rate = RATE
        exchange = await Exchange(h.app, body=chat()).end()

    assert rates(exchange) == TOLD


@pytest.mark.parametrize(
    ("script", "streams"), [(completes, False), (streams, True), (answers, False)]
)
async def test_ollamas_answers_say_it_as_well_and_those_that_fail(house, script, streams):
    async with house(script, keys=Keys(REQUESTS, TOKENS)) as h:
        h.scheduler.rate = RATE
        body = json.dumps({"model": "tiny", "prompt": "a", "stream": streams}).encode()
        exchange = await Exchange(h.app, "/api/generate", body=body).end()

    assert rates(exchange) == TOLD


async def test_anthropics_clients_are_told_in_their_own_headers_too(house):
    async with house(answers, keys=Keys(REQUESTS, TOKENS)) as h:
        h.scheduler.rate = RATE
        exchange = await Exchange(h.app, "/v1/messages", body=chat(max_tokens=5)).end()

    told = rates(exchange)
    assert TOLD.items() <= told.items()
    assert told[b"anthropic-ratelimit-requests-limit"] == b"60"
    assert told[b"anthropic-ratelimit-tokens-remaining"] == b"31220"
    assert told[b"anthropic-ratelimit-requests-reset"].endswith(b"Z")


async def test_what_a_remote_server_says_of_its_own_limits_is_not_told(house):
    async def boasts(received: Received, child: Connection) -> None:
        await child.begin("application/json", "x-ratelimit-limit-requests: 999999")
        await child.say(b"{}")
        await child.finish()

    async with house(boasts, keys=Keys(REQUESTS)) as h:
        h.scheduler.rate = Rate(requests=RATE.requests)
        exchange = await Exchange(h.app, body=chat()).end()

    assert rates(exchange)[b"x-ratelimit-limit-requests"] == b"60"
    assert len([name for name, _ in exchange.headers if name.endswith(b"limit-requests")]) == 1


@pytest.mark.parametrize(
    ("code", "should_retry"),
    [
        ("rate_limit_exceeded", None),
        ("concurrency_limit_exceeded", None),
        ("budget_exhausted", b"false"),
        ("request_exceeds_limit", b"false"),
    ],
)
@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/messages", "/api/chat", "/completion"]
)
async def test_who_is_refused_is_told_when_to_come_again(house, path, code, should_retry):
    async with house(answers, keys=Keys(REQUESTS)) as h:
        h.scheduler.refusal = Refused(code, "too much", retry_after_seconds=34.2, rate=RATE)
        exchange = await Exchange(h.app, path, body=chat()).end()

    assert exchange.status == 429
    assert exchange.header(b"retry-after") == b"35"
    assert exchange.header(b"x-should-retry") == should_retry
    assert TOLD.items() <= rates(exchange).items()
    error = exchange.json["error"]
    if path == "/api/chat":
        assert error == "too much"
    elif path == "/v1/messages":
        assert (exchange.json["type"], error["type"]) == ("error", "rate_limit_error")
    else:
        assert error["message"] == "too much"


def test_an_image_counts_as_one_however_many_bytes_it_has():
    text = chat(content="a" * 400)
    image = chat(content="a" * 400, url="data:image/png;base64," + "iVBORw0KGgo" * 50_000)

    assert prompt_tokens(image) < prompt_tokens(text) + TOKENS_A_BLOB + 20


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[1]",
        b"nonsense",
        b'{"max_tokens": "many"}',
        b'{"max_tokens": null}',
        b'{"max_tokens": true}',
        b'{"max_tokens": -5}',
        b'{"max_tokens": [1]}',
    ],
)
def test_a_cap_that_is_none_is_none(body):
    assert answer_cap(body) is None


def test_of_several_caps_the_largest_counts():
    assert answer_cap(b'{"max_tokens": 5, "n_predict": 50.0}') == 50
