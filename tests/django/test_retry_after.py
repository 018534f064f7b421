"""`Retry-After`, whoever writes the answer: whole seconds, one at least, rounded up."""

from __future__ import annotations

import pytest

from proxy.answers import send_refusal
from proxy.endpoints import dialect_of
from routerproj import api_answers, refusals
from scheduler.protocol import ERRORS, Refused

SECONDS = [(0.0, "1"), (0.2, "1"), (1.0, "1"), (1.01, "2"), (7.5, "8"), (600.0, "600")]
WORTH_REPEATING = sorted(code for code, kind in ERRORS.items() if kind.retry)


def refused(code: str, seconds: float | None) -> Refused:
    return Refused(code, "come again", retry_after_seconds=seconds)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/completion"])
@pytest.mark.parametrize(("seconds", "told"), SECONDS)
async def test_the_gateway_rounds_it_up_in_each_dialect(path, seconds, told):
    sent = []

    async def send(message):
        sent.append(message)

    await send_refusal(send, refused("queue_full", seconds), dialect_of(path), "a", b"r")

    assert dict(sent[0]["headers"])[b"retry-after"] == told.encode()


@pytest.mark.parametrize(("seconds", "told"), SECONDS)
def test_the_guard_rounds_it_up(seconds, told):
    _, headers, _ = refusals.refusal(refused("too_many_connections", seconds), "r")

    assert dict(headers)[b"retry-after"] == told.encode()


@pytest.mark.parametrize(("seconds", "told"), SECONDS)
def test_the_management_api_rounds_it_up(seconds, told):
    answer = api_answers.refused("queue_full", "come again", retry_after_seconds=seconds)

    assert answer["Retry-After"] == told


@pytest.mark.parametrize("code", WORTH_REPEATING)
async def test_what_is_worth_repeating_is_never_said_not_to_be(code):
    sent = []

    async def send(message):
        sent.append(message)

    await send_refusal(send, refused(code, 3.0), dialect_of("/v1/x"), "a", b"r")
    headers = dict(sent[0]["headers"])

    assert headers[b"retry-after"] == b"3"
    assert b"x-should-retry" not in headers
