"""A request as a remote server gets it: its address, its headers. Nothing here waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from urllib.parse import parse_qsl, urlencode

import msgspec

from models_registry.remote_addresses import address_at
from proxy.headers import RawHeaders
from scheduler.protocol import Refused

_PASSED_ON = frozenset(
    {
        b"accept",
        b"content-type",
        b"idempotency-key",
        b"openai-beta",
        b"anthropic-version",
        b"anthropic-beta",
        b"traceparent",
        b"tracestate",
    }
)
"""Of a client's headers. The rest is between it and the gateway: who it is, whence it comes, what
it was sent before."""

_OURS = frozenset({"model", "autoload"})
"""Of a query: the one is rewritten, the other is for the gateway."""


class Asked(msgspec.Struct, frozen=True):
    """What the client sent, but for its body."""

    method: str
    path: str
    query: bytes
    headers: RawHeaders


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    method: str
    url: str
    headers: tuple[tuple[str, str], ...]


def remote_request(
    asked: Asked, *, base: str, model: str, key: str, request_id: str, via: str
) -> RemoteRequest:
    """`base` is the URL of the preset, with or without /v1 at its end; `key` is the preset's own,
    empty for none. Raises Refused for a query that is none."""
    headers = [
        *_passed_on(asked.headers),
        ("User-Agent", "corral"),
        ("X-Request-Id", request_id),
        ("Via", ", ".join([*_via(asked.headers), f"1.1 {via}"])),
    ]
    if key:
        headers.append(("Authorization", f"Bearer {key}"))
    url = address_at(base, asked.path)
    if query := _query(asked, model):
        url = f"{url}?{query}"
    return RemoteRequest(asked.method, url, tuple(headers))


def via_of(secret_key: str) -> str:
    """What this gateway is called in `Via`: the same in all its processes, and nobody else's."""
    return f"corral-{blake2b(secret_key.encode(), digest_size=6, person=b'corral-via').hexdigest()}"


def refuse_what_came_back(headers: RawHeaders, via: str) -> None:
    """Raises Refused: a remote that leads back here would ask for ever."""
    for name, value in headers:
        if name == b"via" and via.encode() in value:
            raise Refused(
                "request_loops",
                "This request has been here before: an upstream URL leads back to this gateway. An "
                "administrator has to change it.",
            )


def _passed_on(headers: RawHeaders) -> Iterator[tuple[str, str]]:
    for name, value in headers:
        if name in _PASSED_ON:
            yield name.decode("latin-1"), value.decode("latin-1")


def _via(headers: RawHeaders) -> Iterator[str]:
    return (value.decode("latin-1") for name, value in headers if name == b"via")


def _query(asked: Asked, model: str) -> str:
    try:
        pairs = parse_qsl(asked.query.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise Refused("invalid_request", f"The query cannot be read: {error}.") from error
    kept = [(name, value) for name, value in pairs if name not in _OURS]
    if any(name == "model" for name, _ in pairs):
        kept.append(("model", model))
    return urlencode(kept)
