"""Prompts and answers are kept of teams that want it, redacted, and of nobody else."""

from __future__ import annotations

import json

import pytest

from proxy.callers import Caller, Policy
from proxy.content.capture import LONGEST

from .asking import Exchange, chat
from .fakes import CRASH, Connection, Received

SAID = b'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n'
MAIL = {"role": "user", "content": "write to ann@mail.org"}


class Keys:
    def __init__(self, *, keeps: bool = True) -> None:
        self._keeps = keeps

    def as_known(self, caller: Caller) -> Caller:
        return caller

    async def identify(self, headers: object, by_session: object = None) -> Caller:
        return Caller("blue", policy=Policy(keeps_content=self._keeps))

    async def close(self) -> None:
        pass


async def streams(received: Received, child: Connection) -> None:
    await child.begin("text/event-stream")
    for part in (b"to bob@", b"mail.org", b"!"):
        await child.say(SAID % part)
    await child.say(b"data: [DONE]\n\n")
    await child.finish()


async def dies(received: Received, child: Connection) -> None:
    """Without a word."""


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat"])
async def test_what_was_asked_and_answered_is_kept_redacted_and_the_client_is_told(house, path):
    body = chat(messages=[MAIL], stream=True)
    async with house(streams, keys=Keys(), no_auth=False) as h:
        exchange = await Exchange(h.app, path, body=body).end()

    [record] = h.usage.records
    assert record.content.answer == "to [redacted]!"
    assert json.loads(record.content.prompt)["messages"][0]["content"] == "write to [redacted]"
    assert not record.content.cut
    assert exchange.header(b"x-corral-content-stored") == b"true"
    assert b"bob@" in exchange.body


async def test_of_a_team_that_does_not_want_it_nothing_is_kept(house):
    body = chat(messages=[MAIL], stream=True)
    async with house(streams, keys=Keys(keeps=False), no_auth=False) as h:
        exchange = await Exchange(h.app, body=body).end()

    assert [record.content for record in h.usage.records] == [None]
    assert exchange.header(b"x-corral-content-stored") is None


async def test_it_is_kept_once_however_often_it_was_tried(house):
    async with house(dies, streams, keys=Keys(), no_auth=False) as h:
        h.scheduler.endings = [CRASH]
        await Exchange(h.app, body=chat(stream=True)).end()

    first, second = h.usage.records
    assert first.content is None
    assert second.content.answer == "to [redacted]!"


async def test_no_more_is_kept_than_may_be_and_a_secret_at_the_edge_is_none(house):
    text = "x" * (LONGEST - 70) + " ann@mail.org " + "y" * LONGEST

    async def answers(received: Received, child: Connection) -> None:
        await child.answer(json.dumps({"content": text}).encode())

    async with house(answers, keys=Keys(), no_auth=False) as h:
        await Exchange(h.app, body=chat(prompt=text)).end()

    content = h.usage.records[0].content
    assert content.cut
    assert len(content.prompt) == len(content.answer) == LONGEST
    assert "ann@" not in content.prompt + content.answer


async def test_vectors_are_not_kept(house):
    async def embeds(received: Received, child: Connection) -> None:
        await child.answer(b'{"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 1}}')

    async with house(embeds, keys=Keys(), no_auth=False) as h:
        await Exchange(h.app, "/v1/embeddings", body=chat(input="text")).end()

    assert h.usage.records[0].content.answer == ""
    assert "text" in h.usage.records[0].content.prompt
