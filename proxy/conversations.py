"""Which requests are conversations: streams whose clients may lose their connection and come back
for the rest. llama.cpp's, by the same header and paths."""

from __future__ import annotations

import re
from functools import partial
from mmap import mmap
from urllib.parse import parse_qsl

import msgspec

from proxy.addressing import MOST_FIELDS
from proxy.body import Body
from proxy.endpoints import RESUMABLE, Endpoint
from proxy.headers import RawHeaders
from proxy.parsing import Parsing
from scheduler.protocol import CONVERSATION_TEXT, Refused

HEADER = b"x-conversation-id"
_TEXT = re.compile(CONVERSATION_TEXT)


class _Body(msgspec.Struct):
    stream: bool = False


_DECODER = msgspec.json.Decoder(_Body)


async def conversation_of(
    endpoint: Endpoint, headers: RawHeaders, body: Body, parsing: Parsing
) -> str:
    """The client's id, for a request whose stream can be resumed by it; empty for any other. The
    body is known to be JSON. Raises Refused for an id that is none."""
    if endpoint.path not in RESUMABLE:
        return ""
    asked = dict(headers).get(HEADER, b"").strip()
    if not asked or not await parsing.run(body, partial(_asks_for_a_stream, body)):
        return ""
    id = asked.decode("latin-1")
    if not _TEXT.match(id):
        raise Refused(
            "invalid_request", "X-Conversation-Id is 1 to 256 printable ASCII characters."
        )
    return id


def _asks_for_a_stream(body: Body) -> bool:
    with body.view() as view:
        return _streams(view)


def _streams(body: bytes | mmap) -> bool:
    try:
        return _DECODER.decode(body).stream
    except msgspec.ValidationError:  # the child says what it thinks of it
        return False


def asked_id(query: bytes, headers: RawHeaders) -> str:
    """`conv_id` in the query, else the header. Raises Refused; the texts are llama.cpp's."""
    id = _in_query(query, "conv_id") or dict(headers).get(HEADER, b"").decode("latin-1").strip()
    if not id:
        raise Refused("invalid_request", "Missing conversation id in path: send it as ?conv_id=ID.")
    return id


def asked_offset(query: bytes) -> int:
    """In bytes. Raises Refused; the text is llama.cpp's."""
    text = _in_query(query, "from") or "0"
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise Refused("invalid_request", "Invalid 'from' offset: it is a number of bytes.")
    return int(text)


def is_id(text: str) -> bool:
    return bool(text) and _TEXT.match(text) is not None


def _in_query(query: bytes, name: str) -> str:
    try:
        pairs = parse_qsl(query.decode("ascii"), max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError as error:  # too many fields, or no UTF-8
        raise Refused("invalid_request", f"The query cannot be read: {error}.") from error
    return next((value for key, value in pairs if key == name), "")
