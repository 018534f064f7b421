"""However a stream breaks off, the library that reads it raises: no cut answer passes for a whole
one. In every dialect, with the libraries that people use, over a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import ollama
import openai
import pytest

from .client_libraries import LIBRARIES, address_of, data
from .fakes import CRASH, STOPPED, Connection, Received

RAISED = (openai.APIError, anthropic.APIError, ollama.ResponseError)
BreaksOff = Callable[[bytes, Connection], Awaitable[None]]


async def at_a_frames_end(first: bytes, child: Connection) -> None:
    """Killed: the connection closes."""


async def inside_a_frame(first: bytes, child: Connection) -> None:
    await child.say(first[: len(first) // 2])


async def inside_a_chunk(first: bytes, child: Connection) -> None:
    await child.raw(b"ff\r\n" + first[:9])


async def with_garbage(first: bytes, child: Connection) -> None:
    await child.raw(b"this is no chunk\r\n")


async def in_silence(first: bytes, child: Connection) -> None:
    await child.until_closed()


async def without_an_end(first: bytes, child: Connection) -> None:
    """It goes on for longer than an answer may take."""
    while True:
        await child.say(first)
        await asyncio.sleep(0.05)


async def by_its_own_word(first: bytes, child: Connection) -> None:
    """An error event of llama-server's."""
    error = {"code": 500, "message": "the context is full", "type": "server_error"}
    if first.startswith(b"event: message_start"):
        await child.say(data(error, "error"))
    else:
        await child.say(data({"error": error}))
    await child.finish()


BREAKINGS: dict[BreaksOff, dict[str, Any]] = {
    at_a_frames_end: {},
    inside_a_frame: {},
    inside_a_chunk: {},
    with_garbage: {},
    in_silence: {"between_tokens_timeout_seconds": 0.2},
    without_an_end: {"answer_timeout_seconds": 1.5},
    by_its_own_word: {},
}
"""How a child may break off, and the limit that ends it where it does not by itself."""


class Breaking:
    """A child that breaks off when its client has heard the beginning."""

    def __init__(self, first: bytes, breaks_off: BreaksOff) -> None:
        self.heard: list[Any] = []
        self._begun = asyncio.Event()
        self._first = first
        self._breaks_off = breaks_off

    def hear(self, told: Any) -> None:
        self.heard.append(told)
        self._begun.set()

    async def begun(self) -> None:
        await self._begun.wait()

    async def __call__(self, received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(self._first)
        await self._begun.wait()
        await self._breaks_off(self._first, child)


@pytest.mark.parametrize("breaks_off", BREAKINGS, ids=lambda breaking: breaking.__name__)
@pytest.mark.parametrize("name", LIBRARIES)
async def test_a_stream_that_breaks_off_raises(house, name: str, breaks_off: BreaksOff) -> None:
    library, first = LIBRARIES[name]
    breaking = Breaking(first, breaks_off)
    async with house(breaking, **BREAKINGS[breaks_off]) as h:
        h.scheduler.endings = [CRASH]
        async with address_of(h.app) as url:
            with pytest.raises(RAISED) as raised:
                await library(url, breaking.hear)
        await h.scheduler.until_all_released()

    assert breaking.heard
    assert str(raised.value)


@pytest.mark.parametrize("name", LIBRARIES)
async def test_a_stream_that_the_shutdown_cuts_raises(house, name: str) -> None:
    library, first = LIBRARIES[name]
    breaking = Breaking(first, in_silence)
    async with house(breaking) as h, address_of(h.app) as url:
        reading = asyncio.create_task(library(url, breaking.hear))
        await breaking.begun()
        await h.app.drain(0.01)

        with pytest.raises(RAISED, match="shutting"):
            await reading


@pytest.mark.parametrize("name", LIBRARIES)
async def test_a_stream_whose_model_a_person_stops_raises(house, name: str) -> None:
    library, first = LIBRARIES[name]
    breaking = Breaking(first, at_a_frames_end)
    async with house(breaking) as h, address_of(h.app) as url:
        h.scheduler.endings = [STOPPED]

        with pytest.raises(RAISED, match="was stopped"):
            await library(url, breaking.hear)


@pytest.mark.parametrize("name", LIBRARIES)
async def test_a_child_that_dies_before_its_first_byte_is_not_seen(house, name: str) -> None:
    library, first = LIBRARIES[name]

    async def dies(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")

    second = Breaking(first, by_its_own_word)
    async with house(dies, second) as h, address_of(h.app) as url:
        with pytest.raises(RAISED, match="context is full"):
            await library(url, second.hear)

    assert second.heard
    assert len(h.children[1].received) == 1
