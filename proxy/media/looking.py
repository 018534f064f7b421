"""Where a body names media by an address. Nothing here waits.

llama-server fetches such an address itself, from inside of this network, and so do other engines:
what is not found here is fetched by them. So all places are looked at in which one of the dialects
has media, for any endpoint and whatever the part's `type` says; free text and what tools are called
with is not.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from mmap import mmap

import msgspec

NULL = msgspec.Raw(b"null")
"""What is left out."""

LARGE = 4 << 20
MOST_OBJECTS = 1_000_000
"""In a body of more than LARGE bytes: some fifty bytes each while it is looked at."""

DEEPEST = 12
"""Objects inside one another; no dialect has media so deep, and no engine looks for them there."""

IMAGE, AUDIO, VIDEO = "image", "audio", "video"
KINDS = {
    "image_url": IMAGE,
    "image": IMAGE,
    "audio_url": AUDIO,
    "input_audio": AUDIO,
    "video_url": VIDEO,
    "input_video": VIDEO,
}
"""By the member of a part that holds it, as a text or as an object with `url` or `data`."""


class _Said(msgspec.Struct, gc=False):
    content: str | None = None
    output: str | None = None


class _Plain(msgspec.Struct, gc=False):
    """A body whose messages are texts: almost every one is, and it takes some microseconds to see
    that it is."""

    messages: list[_Said] | None = None
    input: str | None = None
    content: str | None = None
    prompt: str | None = None
    system: str | None = None
    query: str | None = None
    documents: None = None


class Top(msgspec.Struct, gc=False):
    """Of a body: what may hold parts."""

    messages: msgspec.Raw = NULL
    input: msgspec.Raw = NULL
    content: msgspec.Raw = NULL
    prompt: msgspec.Raw = NULL
    system: msgspec.Raw = NULL
    query: msgspec.Raw = NULL
    documents: msgspec.Raw = NULL


class Node(msgspec.Struct, gc=False):
    """A message, an item, a part or what is in one: of the dialects' together."""

    content: msgspec.Raw = NULL
    output: msgspec.Raw = NULL
    source: msgspec.Raw = NULL
    image_url: msgspec.Raw = NULL
    image: msgspec.Raw = NULL
    audio_url: msgspec.Raw = NULL
    input_audio: msgspec.Raw = NULL
    video_url: msgspec.Raw = NULL
    input_video: msgspec.Raw = NULL


class Place(msgspec.Struct, gc=False):
    """The object that holds the bytes or the address."""

    url: msgspec.Raw = NULL
    data: msgspec.Raw = NULL


@dataclass(frozen=True, slots=True)
class Address:
    """`member` is what holds it, as a client knows it; `kind` one of IMAGE, AUDIO, VIDEO."""

    member: str
    kind: str
    url: str


class TooMany(Exception):
    """The body has too many objects to be looked at."""


_PLAIN = msgspec.json.Decoder(_Plain)
_TOP = msgspec.json.Decoder(Top)
_NODE = msgspec.json.Decoder(Node)
_NODES = msgspec.json.Decoder(list[Node])
_ALL = msgspec.json.Decoder(list[msgspec.Raw])
_PLACE = msgspec.json.Decoder(Place)
_TEXT = msgspec.json.Decoder(str)
_HELD_HERE = re.compile(rb'"(?:data:.*|[A-Za-z0-9+/=_-]*)"', re.DOTALL)
_BASE64 = re.compile(r"[A-Za-z0-9+/=_\s-]*")
_OBJECT, _LIST, _STRING = b"{", b"[", b'"'


def addresses_in(body: bytes | mmap) -> list[Address]:
    """Of valid JSON. Raises TooMany."""
    if len(body) <= LARGE:
        with suppress(msgspec.ValidationError):
            _PLAIN.decode(body)
            return []
    elif _objects_in(body) > MOST_OBJECTS:
        raise TooMany
    try:
        top = _TOP.decode(body)
    except msgspec.ValidationError:  # no object: the child says so
        return []
    found: list[Address] = []
    for name in Top.__struct_fields__:
        if (value := getattr(top, name)) is not NULL:
            _walk(value, found, 0)
    return found


def begins(value: msgspec.Raw) -> bytes:
    return memoryview(value)[:1].tobytes()


def address_in(value: msgspec.Raw) -> str:
    """The address that a text is; empty for anything else: media themselves, as a data URL or in
    base64, and what is no text."""
    if begins(value) != _STRING or _HELD_HERE.fullmatch(value):
        return ""
    text = _TEXT.decode(value)
    return "" if text.startswith("data:") or _BASE64.fullmatch(text) else text


def _objects_in(body: bytes | mmap) -> int:
    return sum(1 for _ in re.finditer(rb"\{", body))


def _walk(value: msgspec.Raw, found: list[Address], depth: int) -> None:
    first = begins(value)
    if depth > DEEPEST or first == _STRING:
        return
    if first == _OBJECT:
        _look_at(_NODE.decode(value), found, depth)
    elif first == _LIST and _OBJECT in bytes(value):
        _walk_list(value, found, depth)


def _walk_list(value: msgspec.Raw, found: list[Address], depth: int) -> None:
    try:
        nodes = _NODES.decode(value)
    except msgspec.ValidationError:  # there is more in it than objects
        for each in _ALL.decode(value):
            _walk(each, found, depth + 1)
        return
    for node in nodes:
        _look_at(node, found, depth)


def _look_at(node: Node, found: list[Address], depth: int) -> None:
    for inner in (node.content, node.output):
        if inner is not NULL:
            _walk(inner, found, depth + 1)
    if node.source is not NULL:
        _look_at_source(node.source, found, depth)
    for member, kind in KINDS.items():
        if (value := getattr(node, member)) is not NULL:
            _look_at_member(value, member, kind, found)


def _look_at_source(value: msgspec.Raw, found: list[Address], depth: int) -> None:
    """Anthropic's: its `data` is never an address, and that of a document is text."""
    if begins(value) != _OBJECT:
        return
    if url := address_in(_PLACE.decode(value).url):
        found.append(Address("source", IMAGE, url))
    _walk(value, found, depth + 1)


def _look_at_member(value: msgspec.Raw, member: str, kind: str, found: list[Address]) -> None:
    if begins(value) == _OBJECT:
        place = _PLACE.decode(value)
        held = (place.url, place.data)
    else:
        held = (value, NULL)
    found += [Address(member, kind, url) for each in held if (url := address_in(each))]
