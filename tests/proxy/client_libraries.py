"""Streams as the client libraries that people use read them, from a gateway of the test's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from anthropic import AsyncAnthropic
from ollama import AsyncClient
from openai import AsyncOpenAI

from tests.django.uvicorn_connections import server

HI = [{"role": "user", "content": "Hello"}]
Heard = Callable[[Any], None]
Library = Callable[[str, Heard], Awaitable[None]]


@asynccontextmanager
async def address_of(app: Any) -> AsyncIterator[str]:
    """Of the application behind our own server."""
    async with server(app, max_connections=100) as connect:
        _, writer = await connect()
        host, port = writer.get_extra_info("peername")
        yield f"http://{host}:{port}"


async def openai_chat(url: str, heard: Heard) -> None:
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        stream = await client.chat.completions.create(model="tiny", messages=HI, stream=True)
        async for chunk in stream:
            heard(chunk.choices[0].delta.content)


async def openai_completions(url: str, heard: Heard) -> None:
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        stream = await client.completions.create(model="tiny", prompt="x", stream=True)
        async for chunk in stream:
            heard(chunk.choices[0].text)


async def openai_responses(url: str, heard: Heard) -> None:
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        stream = await client.responses.create(model="tiny", input="x", stream=True)
        async for event in stream:
            heard(event.delta)


async def anthropic_raw(url: str, heard: Heard) -> None:
    async with AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as client:
        stream = await client.messages.create(model="tiny", messages=HI, max_tokens=9, stream=True)
        async for event in stream:
            heard(event.type)


async def anthropic_helper(url: str, heard: Heard) -> None:
    async with (
        AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as client,
        client.messages.stream(model="tiny", messages=HI, max_tokens=9) as stream,
    ):
        async for event in stream:
            heard(event.type)
        await stream.get_final_message()


async def ollama_chat(url: str, heard: Heard) -> None:
    async with AsyncClient(url) as client:
        async for part in await client.chat("tiny", HI, stream=True):
            heard(part.message.content)


async def ollama_generate(url: str, heard: Heard) -> None:
    async with AsyncClient(url) as client:
        async for part in await client.generate("tiny", "x", stream=True):
            heard(part.response)


def data(told: Any, event: str = "") -> bytes:
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(told)}\n\n".encode()


_CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
_DELTA = {"type": "response.output_text.delta", "item_id": "m", "delta": "Hel"}
_MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "content": [], "model": "tiny",
    "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 0},
}  # fmt: skip
CHAT = data({**_CHUNK, "choices": [{"index": 0, "delta": {"content": "Hel"}}]})
TEXT = data({**_CHUNK, "choices": [{"index": 0, "text": "Hel"}]})
RESPONSE = data(_DELTA, "response.output_text.delta")
ANTHROPIC = data({"type": "message_start", "message": _MESSAGE}, "message_start")

LIBRARIES: dict[str, tuple[Library, bytes]] = {
    "openai chat": (openai_chat, CHAT),
    "openai completions": (openai_completions, TEXT),
    "openai responses": (openai_responses, RESPONSE),
    "anthropic raw": (anthropic_raw, ANTHROPIC),
    "anthropic helper": (anthropic_helper, ANTHROPIC),
    "ollama chat": (ollama_chat, CHAT),
    "ollama generate": (ollama_generate, CHAT),
}
"""How each reads a stream, and the first event with which its child begins one."""
