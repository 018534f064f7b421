"""What OpenAI's Responses and Anthropic's Messages can ask for, and llama-server would leave out in
silence: it is said in words that it knows, or refused. Nothing here waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from mmap import mmap
from typing import Any

import msgspec

from scheduler.protocol import Refused

RESPONSES = frozenset({"/v1/responses", "/responses"})
MESSAGES = frozenset({"/v1/messages"})
PATHS = RESPONSES | MESSAGES

_NULL = msgspec.Raw(b"null")
_SCHEMA, _OBJECT = "json_schema", "json_object"


@dataclass(frozen=True, slots=True)
class Otherwise:
    """What is to be done to the body: members to `add` where they are missing, and to `strip`.
    `refused` says why it is not to be sent at all."""

    add: dict[str, Any] = field(default_factory=dict)
    strip: tuple[str, ...] = ()
    refused: Refused | None = None

    def __bool__(self) -> bool:
        return bool(self.add or self.strip or self.refused)


AS_IT_IS = Otherwise()


class _Format(msgspec.Struct):
    type: str | None = None
    schema: msgspec.Raw = _NULL


class _WithFormat(msgspec.Struct):
    format: _Format | None = None


class _Response(msgspec.Struct):
    text: _WithFormat | None = None
    background: bool | None = None
    conversation: msgspec.Raw = _NULL
    prompt: msgspec.Raw = _NULL


class _Choice(msgspec.Struct):
    type: str | None = None


class _Message(msgspec.Struct):
    messages: msgspec.Raw = _NULL
    output_format: _Format | None = None
    output_config: _WithFormat | None = None
    tool_choice: _Choice | None = None


_RESPONSE = msgspec.json.Decoder(_Response)
_MESSAGE = msgspec.json.Decoder(_Message)


def otherwise(path: str, body: bytes | mmap) -> Otherwise:
    """For valid JSON. What is of a wrong type is the engine's to judge."""
    try:
        if path in RESPONSES:
            return _response(_RESPONSE.decode(body))
        return _message(_MESSAGE.decode(body))
    except msgspec.ValidationError:
        return AS_IT_IS


def _response(asked: _Response) -> Otherwise:
    for name, wanted in (
        ("background", asked.background),
        ("conversation", _is_given(asked.conversation)),
        ("prompt", _is_given(asked.prompt)),
    ):
        if wanted:
            return _refused(
                f"`{name}` needs a server that keeps what was said, which this one does not: send "
                "all of it as `input`."
            )
    form = asked.text.format if asked.text is not None else None
    if form is None or form.type not in (_SCHEMA, _OBJECT):
        return AS_IT_IS
    wish: dict[str, Any] = {"type": form.type}
    if form.type == _SCHEMA:
        wish[_SCHEMA] = {"schema": form.schema.copy()}  # the body is closed before
    return Otherwise(add={"response_format": wish})


def _message(asked: _Message) -> Otherwise:
    if bytes(memoryview(asked.messages)[:1]) != b"[":
        return _refused("`messages` must be a list.")
    forms = (asked.output_format, asked.output_config.format if asked.output_config else None)
    if any(form is not None and form.type is not None for form in forms):
        return _refused(
            "The engine knows no output format on this path: give a tool with that schema and "
            '`tool_choice: {"type": "any"}`, or ask /v1/chat/completions.'
        )
    if asked.tool_choice is not None and asked.tool_choice.type == "none":
        return Otherwise(strip=("tools", "tool_choice"))
    return AS_IT_IS


def _is_given(value: msgspec.Raw) -> bool:
    return bytes(memoryview(value)[:4]) not in (b"null", b'""')


def _refused(words: str) -> Otherwise:
    return Otherwise(refused=Refused("invalid_request", words))
