"""Which endpoint a path is, and which model a body names. Nothing here waits or keeps anything."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from enum import StrEnum, auto
from mmap import mmap
from typing import Any

import msgspec

from proxy.dialects import Dialect, llamacpp, openai
from scheduler.protocol import Refused


class Kind(StrEnum):
    """What answers."""

    FORWARD = auto()  # a child
    MODELS = auto()
    PROPS = auto()
    HEALTH = auto()
    READY = auto()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`public` ones are answered without a key."""

    kind: Kind
    path: str
    methods: tuple[str, ...]
    dialect: Dialect
    public: bool = False


@dataclass(frozen=True, slots=True)
class Addressed:
    """What the gateway needs to know of a body; the child reads the rest."""

    model: str
    stream: bool


class MethodNotAllowed(Refused):
    """The path is known, but not for this method."""

    def __init__(self, method: str, path: str, allowed: tuple[str, ...]) -> None:
        super().__init__(
            "method_not_allowed", f"{method} is not allowed on {path}: use {' or '.join(allowed)}."
        )
        self.allowed = allowed


def dialect_of(path: str) -> Dialect:
    return openai.error_answer if path.startswith("/v1") else llamacpp.error_answer


def _endpoint(kind: Kind, path: str, *, public: bool = False) -> Endpoint:
    methods = ("POST",) if kind is Kind.FORWARD else ("GET", "HEAD")
    return Endpoint(kind, path, methods, dialect_of(path), public)


ENDPOINTS: dict[str, Endpoint] = {
    endpoint.path: endpoint
    for endpoint in (
        _endpoint(Kind.FORWARD, "/v1/chat/completions"),
        _endpoint(Kind.FORWARD, "/chat/completions"),
        _endpoint(Kind.FORWARD, "/v1/completions"),
        _endpoint(Kind.FORWARD, "/completions"),
        _endpoint(Kind.FORWARD, "/completion"),
        _endpoint(Kind.FORWARD, "/v1/embeddings"),
        _endpoint(Kind.FORWARD, "/embeddings"),
        _endpoint(Kind.MODELS, "/v1/models"),
        _endpoint(Kind.MODELS, "/models"),
        _endpoint(Kind.PROPS, "/props"),
        _endpoint(Kind.HEALTH, "/health", public=True),
        _endpoint(Kind.HEALTH, "/v1/health", public=True),
        _endpoint(Kind.READY, "/ready", public=True),
    )
}


def find_endpoint(path: str, method: str) -> Endpoint:
    """Raises Refused: `not_found`, or MethodNotAllowed."""
    endpoint = ENDPOINTS.get(path)
    if endpoint is None:
        raise Refused("not_found", f"There is no endpoint {method} {path} on this gateway.")
    if method not in endpoint.methods:
        raise MethodNotAllowed(method, path, endpoint.methods)
    return endpoint


class _Name:
    """The value of a `model` key, whatever its type.

    msgspec hands a type that it does not know to `dec_hook`, once for every key of that name: this
    is how a body with two of them is found. (A plain `str` field keeps the last one in silence.)
    """

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class _Body(msgspec.Struct):
    model: _Name | None = None
    stream: Any = None


def address(body: bytes | mmap) -> Addressed:
    """Raises Refused when the body is not one JSON object that names one model.

    The whole body is checked, so that nothing is loaded for a request that a child would refuse as
    malformed. As in llama.cpp, a `model` that is not a string counts as missing.
    """
    names: list[object] = []

    def keep(_type: type, value: object) -> _Name:
        names.append(value)
        return _Name(value)

    try:
        found = msgspec.json.decode(body, type=_Body, dec_hook=keep)
        _check_utf8(body)
    except msgspec.ValidationError as error:
        raise Refused(
            "invalid_request", f"The body must be a JSON object with usable values: {error}."
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused("invalid_json", f"The body is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise Refused("invalid_json", "The body's JSON is nested too deeply.") from error
    if len(names) > 1:
        raise Refused("invalid_request", "The body has more than one `model`: send one.")
    model = found.model.value if found.model is not None else None
    if not isinstance(model, str) or not model:
        raise Refused(
            "model_missing",
            "The body must name a model: `model` is a non-empty string; GET /v1/models lists them.",
        )
    return Addressed(model, found.stream is True)


_SLICE = 1 << 20


def _check_utf8(body: bytes | mmap) -> None:
    """msgspec skips the strings of fields that it was not asked for without decoding them."""
    if isinstance(body, bytes) and body.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(body), _SLICE):
        decoder.decode(body[start : start + _SLICE])
    decoder.decode(b"", final=True)


def autoload_asked(query: bytes, *, default: bool) -> bool:
    """llama.cpp's `?autoload=`: true or 1 is on, any other non-empty value off."""
    if b"autoload=" not in query:
        return default
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        if name == b"autoload" and value:
            return value in (b"true", b"1")
    return default
