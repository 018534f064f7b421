"""Who wants to come to the same instance each time says so by a header, and it travels along."""

from __future__ import annotations

import json

import pytest

from .asking import Exchange, chat
from .fakes import Connection, Received


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b"{}")


async def told(house, *requests: tuple[dict[str, str], bytes]) -> list[str]:
    async with house(answers) as h:
        for headers, body in requests:
            named = [(name.encode(), value.encode()) for name, value in headers.items()]
            await Exchange(h.app, headers=named, body=body).end()
        return [asked.sticky for asked in h.scheduler.asked]


def asking(text: str) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()


async def test_who_does_not_ask_goes_anywhere(house):
    assert await told(house, ({}, chat())) == [""]


@pytest.mark.parametrize("header", ["x-conversation-id", "x-corral-sticky"])
async def test_the_same_text_goes_to_the_same_place_and_another_elsewhere(house, header):
    a, b, other = await told(
        house, ({header: "c-1"}, chat()), ({header: "c-1"}, asking("?")), ({header: "c-2"}, chat())
    )

    assert a == b != other
    assert a


async def test_a_prefix_is_the_beginning_of_the_prompt(house):
    system = "You are a helpful assistant. " * 60
    asked = {"x-corral-sticky": "prefix"}

    a, b, other = await told(
        house,
        (asked, asking(system + "One?")),
        (asked, asking(system + "Two?")),
        (asked, asking("Three?")),
    )

    assert a == b != other


async def test_the_header_is_not_the_childs(house):
    seen: list[Received] = []

    async def look(received: Received, child: Connection) -> None:
        seen.append(received)
        await child.answer(b"{}")

    async with house(look) as h:
        await Exchange(h.app, headers=[(b"x-corral-sticky", b"me")], body=chat()).end()

    assert seen[0].header("x-corral-sticky") is None


async def test_what_is_no_text_is_refused(house):
    async with house(answers) as h:
        exchange = Exchange(h.app, headers=[(b"x-corral-sticky", b"two words")], body=chat())
        await exchange.end()

    assert exchange.status == 400
    assert b"X-Corral-Sticky" in exchange.body
