"""Which headers pass the gateway, in both directions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote_plus

from scheduler.protocol import Refused

RawHeaders = Sequence[tuple[bytes, bytes]]
"""Names are in lower case."""

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""RFC 9110 7.6.1: they speak of one connection, so they end at it."""

_NOT_TO_THE_CHILD = HOP_BY_HOP | {
    b"host",  # rewritten
    b"content-length",  # set from the body that was read
    b"content-encoding",  # only identity gets here
    b"expect",  # answered by our server
    b"accept-encoding",  # the child's bytes pass untouched
    b"authorization",  # the client's secrets are for the gateway
    b"x-api-key",
    b"api-key",  # where some clients put the same key, too
    b"x-goog-api-key",
    b"cookie",
    b"x-request-id",  # ours, which the client may have chosen
    # llama-server replays or cuts a stream for whoever knows its id: tenants would reach each other
    b"x-conversation-id",
    b"x-corral-sticky",
    b"traceparent",  # whose trace it is a part of is between the client and the gateway
    b"tracestate",
    b"baggage",
}

_NOT_TO_THE_CLIENT = HOP_BY_HOP | {
    b"server",
    b"date",  # our server states its own
    b"set-cookie",
    b"x-accel-buffering",
    b"x-request-id",
    b"x-corral-filters",
    b"x-content-type-options",
    b"content-security-policy",
}

_AS_DATA = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox; default-src 'none'"),
)
"""Whatever a child or a remote server calls its answer, a browser makes no page of it: that page
would be one of this gateway's own, with whoever is logged in to the admin."""

_RATES = (b"x-ratelimit-", b"anthropic-ratelimit-")

_NOT_IN_A_TARGET = re.compile(rb"[\x00-\x20\x7f]")
_FORBIDDEN = re.compile(rb"[\r\n\x00]")
_NOT_IN_A_NAME = re.compile(rb'[\x00-\x20\x7f()<>@,;:\[\]={}"]')
_NOT_IN_A_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_TRACE = re.compile(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


LONGEST_FIELD = 8000
"""Bytes of one header, or of the target. llama-server answers nothing but an empty 400 from 8 KiB
on; the same for more than a hundred fields, and four of them are ours."""

MOST_FIELDS = 96


def refuse_odd_headers(headers: RawHeaders) -> None:
    """Raises Refused for a header that could be read as more than one, for an encoded body, and for
    what is more than a child takes."""
    if _FORBIDDEN.search(b"".join([part for header in headers for part in header])):
        raise Refused("invalid_request", "A header holds CR, LF or NUL.")
    if len(headers) > MOST_FIELDS:
        raise Refused("headers_too_large", f"There are more than {MOST_FIELDS} headers.")
    for name, value in headers:
        if len(value) + len(name) > LONGEST_FIELD and name not in _NOT_TO_THE_CHILD:
            raise Refused(
                "headers_too_large",
                f"The header {name.decode('latin-1')[:40]} is longer than {LONGEST_FIELD} bytes,"
                " which is more than llama-server takes.",
            )
        if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            raise Refused(
                "invalid_request", "Compressed request bodies are not taken: send it as it is."
            )


def head_for_child(
    method: str, path: str, query: bytes, headers: RawHeaders, request_id: str
) -> bytes:
    """The head of the request to a child, as it goes over the wire, up to its `end_of_head`. The
    headers that may pass are passed as they came, in their order.

    Raises Refused for a query that would not stay on its line, or is longer than a child takes.
    """
    if _NOT_IN_A_TARGET.search(query):
        raise Refused("invalid_request", "The query holds a blank or a control character.")
    if len(query) > LONGEST_FIELD:
        raise Refused("headers_too_large", f"The query is longer than {LONGEST_FIELD} bytes.")
    dropped = _with_named_by_connection(_NOT_TO_THE_CHILD, headers)
    target = b"%b?%b" % (path.encode(), query) if query else path.encode()
    lines = [
        b"%b %b HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" % (method.encode(), target),
        b"x-request-id: %b\r\n" % request_id.encode(),
        *[b"%b: %b\r\n" % header for header in headers if header[0] not in dropped],
    ]
    return b"".join(lines)


def socket_headers_for_child(headers: RawHeaders, request_id: str) -> list[tuple[str, str]]:
    """The same for the opening of a WebSocket, whose own headers each side makes for itself."""
    dropped = _with_named_by_connection(_NOT_TO_THE_CHILD | {b"origin"}, headers)
    passed = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in headers
        if name not in dropped and not name.startswith(b"sec-websocket-")
    ]
    return [*passed, ("x-request-id", request_id)]


def socket_query_for_child(query: bytes, model: str = "") -> str:
    """With its question mark, and the child's own name for the model if it has one. A key in it is
    not taken by the gateway, nor is it for the child. Raises Refused for one that cannot stand in
    an address."""
    if _NOT_IN_A_TARGET.search(query) or b"#" in query or len(query) > LONGEST_FIELD:
        raise Refused("invalid_request", "The query is too long, or holds what no query may.")
    parts = query.decode("latin-1").split("&")
    named = [(unquote_plus(part.partition("=")[0]), part) for part in parts]
    kept = [
        f"model={quote(model, safe='')}" if model and name == "model" else part
        for name, part in named
        if name.lower() != "api_key"
    ]
    return "?" + "&".join(kept)


def end_of_head(content_length: int) -> bytes:
    return b"content-length: %d\r\n\r\n" % content_length


def to_client(
    headers: RawHeaders,
    request_id: bytes,
    *,
    stream: bool,
    filtered: bytes = b"",
    rate: RawHeaders = (),
) -> list[tuple[bytes, bytes]]:
    """What the client is sent. Content-Length stays: the bytes are passed on as they are.
    `filtered` says what was done to its request, `rate` what is left of its own limits: it goes
    before what a remote server says of ours."""
    dropped = _with_named_by_connection(_NOT_TO_THE_CLIENT, headers)
    kept = [
        header
        for header in headers
        if header[0] not in dropped and not header[0].startswith(b"access-control-")
    ]
    if rate:
        kept = [header for header in kept if not header[0].startswith(_RATES)]
        kept += rate
    if stream:
        kept.append((b"x-accel-buffering", b"no"))
    kept += _AS_DATA
    if filtered:
        kept.append((b"x-corral-filters", filtered))
    kept.append((b"x-request-id", request_id))
    return kept


def can_be_told(status: int, headers: RawHeaders) -> bool:
    """Whether an answer's head is one of HTTP. Parsers let more pass than servers will send."""
    for name, value in headers:
        if _NOT_IN_A_NAME.search(name) or _NOT_IN_A_VALUE.search(value):
            return False
    return 200 <= status < 600


def client_request_id(headers: RawHeaders) -> str | None:
    """The client's own request id, if it is a sane one."""
    for name, value in headers:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode("ascii")
    return None


def trace_in(headers: RawHeaders) -> str:
    """The trace of which a client says that its request is a part (W3C's `traceparent`); empty when
    it says nothing that can be read, or two things."""
    said = [value for name, value in headers if name == b"traceparent"]
    if len(said) != 1 or not _TRACE.fullmatch(said[0].strip()):
        return ""
    return said[0].strip().decode()


def content_length(headers: RawHeaders) -> int | None:
    """None when it is not stated (a chunked body). Raises Refused when it is not a number."""
    for name, value in headers:
        if name == b"content-length":
            if not value.isdigit() or len(value) > 18:
                raise Refused("invalid_request", "Content-Length is not a number.")
            return int(value)
    return None


def _with_named_by_connection(dropped: frozenset[bytes], headers: RawHeaders) -> frozenset[bytes]:
    """`dropped`, and what a Connection header says is for this connection only."""
    for name, value in headers:
        if name == b"connection":
            dropped |= {token.strip().lower() for token in value.split(b",")}
    return dropped
