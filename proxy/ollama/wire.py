"""What clients of Ollama send, typed. Nothing here waits."""

from __future__ import annotations

import re
from mmap import mmap
from typing import Any, TypeVar

import msgspec

from scheduler.protocol import Refused

MOST_OPTIONS = 64 << 10
"""Bytes of `options`."""
MOST_LOGPROBS = 20
_LEVELS = ("low", "medium", "high", "max")


NULL = msgspec.Raw(b"null")
"""What is left out."""


class Function(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class Call(msgspec.Struct):
    function: Function
    id: str | None = None


class Message(msgspec.Struct):
    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[Call] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class Asking(msgspec.Struct):
    """What all requests for a text have."""

    stream: bool | None = None
    keep_alive: Any = None
    options: msgspec.Raw = NULL
    format: msgspec.Raw = NULL
    think: Any = None
    logprobs: bool | None = None
    top_logprobs: int | None = None

    @property
    def streams(self) -> bool:
        return self.stream is not False


class Chat(Asking):
    messages: list[Message] | None = None
    tools: msgspec.Raw = NULL


class Generate(Asking):
    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    template: str | None = None
    raw: bool | None = None
    images: list[str] | None = None
    context: msgspec.Raw = NULL


class Embed(msgspec.Struct):
    input: str | list[str] | None = None
    dimensions: int | None = None
    truncate: bool | None = None
    keep_alive: Any = None
    options: msgspec.Raw = NULL


class Embeddings(msgspec.Struct):
    prompt: str | None = None
    keep_alive: Any = None
    options: msgspec.Raw = NULL


class Show(msgspec.Struct):
    model: str | None = None
    name: str | None = None
    verbose: bool | None = None


T = TypeVar("T")


def decoded(body: bytes | mmap | msgspec.Raw, kind: type[T]) -> T:
    """Raises Refused."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Refused("invalid_request", f"This is not as Ollama has it: {error}.") from error
    except msgspec.DecodeError as error:
        raise Refused("invalid_json", f"The body is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise Refused("invalid_json", "The body's JSON is nested too deeply.") from error


def options_in(raw: msgspec.Raw) -> dict[str, Any] | None:
    """Raises Refused."""
    if memoryview(raw).nbytes > MOST_OPTIONS:
        raise Refused("invalid_request", f"`options` are larger than {MOST_OPTIONS} bytes.")
    options: dict[str, Any] | None = decoded(raw, dict[str, Any] | None)  # type: ignore[arg-type]
    return options


def is_given(raw: msgspec.Raw) -> bool:
    """Neither null nor an empty list."""
    return bytes(memoryview(raw)[:4]) not in (b"null", b"[]")


def schema_in(raw: msgspec.Raw) -> msgspec.Raw | str:
    """`json` as that word, a JSON schema as it came, no wish as an empty text. Raises Refused."""
    text = bytes(memoryview(raw)[:8])
    if text in (b"null", b'""'):
        return ""
    if text == b'"json"':
        return "json"
    if text.lstrip().startswith(b"{"):
        return raw
    raise Refused(
        "invalid_request",
        'invalid format: "format" is "json", or a JSON schema as an object',
    )


def think_in(value: object) -> bool | str | None:
    """Raises Refused."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _LEVELS:
        return value
    raise Refused(
        "invalid_request",
        'invalid think value (must be "high", "medium", "low", "max", true, or false)',
    )


def logprobs_in(asked: Asking) -> int | None:
    """How many others are told beside each token; None: no probabilities at all. Raises Refused."""
    most = asked.top_logprobs or 0
    if not 0 <= most <= MOST_LOGPROBS:
        raise Refused("invalid_request", f"top_logprobs must be between 0 and {MOST_LOGPROBS}")
    return most if asked.logprobs or most else None


_KINDS = (
    (re.compile(r"iVBORw0KGgo"), "image/png"),
    (re.compile(r"/9j/"), "image/jpeg"),
    (re.compile(r"R0lGOD"), "image/gif"),
    (re.compile(r"UklGR"), "image/webp"),
    (re.compile(r"Qk"), "image/bmp"),
)
_BASE64 = re.compile(r"[A-Za-z0-9+/\r\n]*={0,2}\s*")


def image_url(image: str) -> str:
    """Of base64, with its kind by its first bytes: never an address that somebody would have to
    fetch. Raises Refused."""
    if image.startswith("data:"):
        return image
    if not image or not _BASE64.fullmatch(image):
        raise Refused("invalid_request", "`images` are base64: addresses and paths are not taken.")
    kind = next((kind for begins, kind in _KINDS if begins.match(image)), "image/png")
    return f"data:{kind};base64,{image}"
