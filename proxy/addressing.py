"""Which endpoint a path is, and which model a body names. Nothing here waits or keeps anything."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from enum import StrEnum, auto
from mmap import mmap

import msgspec

from proxy.dialects import Dialect, llamacpp, openai
from scheduler.protocol import Refused


class Kind(StrEnum):
    """What answers."""

    FORWARD = auto()  # a child
    MODELS = auto()
    MODEL = auto()
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


NOT_CARRIED = frozenset(
    {
        "/apply-template",
        "/audio/transcriptions",
        "/chat/completions/input_tokens",
        "/cors-proxy",
        "/detokenize",
        "/embedding",
        "/infill",
        "/lora-adapters",
        "/metrics",
        "/models/load",
        "/models/sse",
        "/models/unload",
        "/rerank",
        "/reranking",
        "/responses",
        "/responses/input_tokens",
        "/slots",
        "/tokenize",
        "/tools",
        "/v1/audio/transcriptions",
        "/v1/chat/completions/control",
        "/v1/chat/completions/input_tokens",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/realtime",
        "/v1/rerank",
        "/v1/reranking",
        "/v1/responses",
        "/v1/responses/input_tokens",
        "/v1/stream",
        "/v1/streams/lookup",
        "/v1/systemone",
    }
)
"""Paths of llama.cpp's: their clients are told that it is the gateway, not the address."""

_NOT_CARRIED_METHODS = frozenset({("POST", "/models"), ("DELETE", "/models"), ("POST", "/props")})


def is_not_carried(path: str) -> bool:
    return path in NOT_CARRIED or path.startswith("/slots/")


def _model_endpoint(path: str) -> Endpoint | None:
    return None if is_not_carried(path) or not model_named(path) else _endpoint(Kind.MODEL, path)


def model_named(path: str) -> str:
    """The name in /models/{name}, which may hold slashes; empty for other paths."""
    beginning = "/v1/models/" if path.startswith("/v1/") else "/models/"
    return path.removeprefix(beginning) if path.startswith(beginning) else ""


def find_endpoint(path: str, method: str) -> Endpoint:
    """Raises Refused: `not_found`, or MethodNotAllowed."""
    endpoint = ENDPOINTS.get(path) or _model_endpoint(path)
    if endpoint is not None and method in endpoint.methods:
        return endpoint
    if is_not_carried(path) or (method, path) in _NOT_CARRIED_METHODS:
        raise Refused(
            "not_found", f"{method} {path} is one of llama.cpp's that this gateway does not carry."
        )
    if endpoint is None:
        raise Refused("not_found", f"There is no endpoint {method} {path} on this gateway.")
    raise MethodNotAllowed(method, path, endpoint.methods)


LONGEST_MODEL = 200
"""Characters of a preset's or an alias's name. A longer one is unknown without asking anybody."""


class _Body(msgspec.Struct):
    """What the gateway needs to know of a body; the child reads the rest. Nothing else is built:
    a small body of many values would take a hundred times its size."""

    model: str | None = None


class _Occurrence:
    """msgspec hands a type that it does not know to `dec_hook`, once for every key of that name."""


class _Occurrences(msgspec.Struct):
    model: _Occurrence | msgspec.UnsetType = msgspec.UNSET


_DECODER = msgspec.json.Decoder(_Body)


def address(body: bytes | mmap) -> str:
    """The model's name. Raises Refused when the body is not one JSON object that names one model.

    The whole body is checked, so that nothing is loaded for a request that a child would refuse as
    malformed. As in llama.cpp, a `model` that is not a string counts as missing. The time is at
    most about 7 ns a byte, and nothing else of Python's runs meanwhile.
    """
    try:
        model = _DECODER.decode(body).model
        if _may_name_two(body):
            _refuse_two(body)
        _check_utf8(body)
    except msgspec.ValidationError as error:
        if "$.model" in str(error):
            raise _model_missing() from error
        raise Refused(
            "invalid_request", f"The body must be a JSON object with usable values: {error}."
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused("invalid_json", f"The body is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise Refused("invalid_json", "The body's JSON is nested too deeply.") from error
    if not model:
        raise _model_missing()
    if len(model) > LONGEST_MODEL:
        raise Refused(
            "model_not_found",
            f"There is no model '{model[:40]}…': names have up to {LONGEST_MODEL} characters.",
        )
    return model


def _may_name_two(body: bytes | mmap) -> bool:
    """msgspec keeps the last of two in silence. Two need the key twice, or an escape in it."""
    first = body.find(b'"model"')
    return body.find(b'"model"', first + 1) >= 0 or body.find(b"\\u006") >= 0


def _refuse_two(body: bytes | mmap) -> None:
    """Only for a body each of whose `model`s is known to be a string or null."""
    found = False

    def once(_type: type, _value: object) -> _Occurrence:
        nonlocal found
        if found:
            raise Refused("invalid_request", "The body has more than one `model`: send one.")
        found = True
        return _Occurrence()

    msgspec.json.decode(body, type=_Occurrences, dec_hook=once)


def _model_missing() -> Refused:
    return Refused(
        "model_missing",
        "The body must name a model: `model` is a non-empty string; GET /v1/models lists them.",
    )


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
