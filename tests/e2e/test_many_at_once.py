"""Many clients at once: for three presets with room for two, and for one instance."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import aiohttp
import pytest

from tests.support.asking import CHAT, chat_body
from tests.support.gateway import Gateway
from tests.support.processes import busy_slots

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ASKED = ["alpha", "beta", "gamma", "first"]  # `first` is alpha's alias
CANONICAL = {"alpha": "alpha", "beta": "beta", "gamma": "gamma", "first": "alpha"}


async def test_each_has_a_whole_answer_under_the_canonical_name_with_the_necessary_loads_only(
    shared: Gateway,
) -> None:
    shared.unload_all()
    before = shared.starts()

    answered = await _ask_all(shared, [ASKED[number % 4] for number in range(200)])

    assert {status for _, status, _ in answered} == {200}
    assert all(body["model"] == CANONICAL[asked] for asked, _, body in answered)
    assert all(body["usage"]["completion_tokens"] > 0 for _, _, body in answered)
    assert all(body["choices"][0]["finish_reason"] for _, _, body in answered)
    shared.unload_all()
    assert shared.starts() - before == {"alpha": 1, "beta": 1, "gamma": 1}


def test_an_instance_writes_its_answers_side_by_side(shared: Gateway) -> None:
    with ExitStack() as answers:
        for _ in range(4):
            stream = answers.enter_context(shared.client.stream("slow", max_tokens=3000))
            assert stream.next_event()

        assert busy_slots(shared.child_of("slow")) == 4


async def _ask_all(shared: Gateway, names: list[str]) -> list[tuple[str, int, Any]]:
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    headers = {"Authorization": f"Bearer {shared.key}"}
    async with aiohttp.ClientSession(shared.base_url, connector=connector) as session:

        async def ask(name: str) -> tuple[str, int, Any]:
            # Long enough that all have arrived before the first model has nothing to do
            body = chat_body(name, max_tokens=32)
            async with session.post(CHAT, json=body, headers=headers) as answer:
                return name, answer.status, await answer.json()

        return await asyncio.gather(*[ask(name) for name in names])
