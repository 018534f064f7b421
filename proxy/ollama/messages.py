"""Ollama's messages as OpenAI's. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from proxy.ollama.wire import Call, Message, image_url

Spoken = dict[str, Any]


def spoken(messages: Sequence[Message]) -> list[Spoken]:
    """Calls without an id get one, and the tools' answers that of the call that they follow. Raises
    Refused."""
    told: list[Spoken] = []
    open_calls: list[tuple[str, str]] = []  # (id, tool) of those that have no answer yet
    for message in messages:
        said = turn(message.role, message.content or "")
        if message.images:
            said["content"] = images_in(message.content or "", message.images)
        if message.thinking:
            said["reasoning_content"] = message.thinking
        if message.tool_calls:
            said["tool_calls"] = [
                _called(call, f"call_{len(told)}_{number}")
                for number, call in enumerate(message.tool_calls)
            ]
            open_calls = [(call["id"], call["function"]["name"]) for call in said["tool_calls"]]
        if message.role == "tool":
            _answer_a_call(said, message, open_calls)
        told.append(said)
    return told


def turn(role: str, text: str) -> Spoken:
    return {"role": role, "content": text}


def images_in(text: str, images: Sequence[str]) -> list[Spoken]:
    """Raises Refused."""
    shown = [{"type": "image_url", "image_url": {"url": image_url(each)}} for each in images]
    return [*([{"type": "text", "text": text}] if text else []), *shown]


def _called(call: Call, otherwise: str) -> Spoken:
    arguments = bytes(memoryview(call.function.arguments)).decode()
    if arguments.startswith('"'):  # a client that sends them as OpenAI's do
        arguments = msgspec.json.decode(arguments, type=str)
    function = {"name": call.function.name, "arguments": arguments}
    return {"id": call.id or otherwise, "type": "function", "function": function}


def _answer_a_call(said: Spoken, message: Message, open_calls: list[tuple[str, str]]) -> None:
    """By its id, else by its tool's name, else the first that has no answer."""
    matching = [call for call in open_calls if call[0] == message.tool_call_id] or [
        call for call in open_calls if call[1] == message.tool_name
    ]
    chosen = next(iter(matching or open_calls), None)
    if chosen is not None:
        open_calls.remove(chosen)
    said["tool_call_id"] = message.tool_call_id or (chosen[0] if chosen else "")
    if name := message.tool_name or (chosen[1] if chosen else ""):
        said["name"] = name
