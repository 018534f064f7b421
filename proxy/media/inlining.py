"""The same body with the media in the place of their addresses. Nothing here waits."""

from __future__ import annotations

from collections.abc import Mapping
from mmap import mmap

import msgspec

from proxy.media.fetching import Fetched
from proxy.media.looking import DEEPEST, KINDS, NULL, Top, address_in, begins

_Fields = dict[str, msgspec.Raw]

_FIELDS = msgspec.json.Decoder(_Fields)
_ALL = msgspec.json.Decoder(list[msgspec.Raw])


def inlined(body: bytes | mmap, media: Mapping[str, Fetched]) -> bytes:
    """`media` holds what every address in `body` (looking.addresses_in) leads to. All other values
    stay as they are, byte by byte."""
    fields = _FIELDS.decode(body)
    for name in Top.__struct_fields__:
        if name in fields:
            fields[name] = _with_media(fields[name], media, 0)
    return msgspec.json.encode(fields)


def _with_media(value: msgspec.Raw, media: Mapping[str, Fetched], depth: int) -> msgspec.Raw:
    first = begins(value)
    if depth > 2 * DEEPEST or first not in (b"[", b"{"):
        return value
    if first == b"[":
        return _raw([_with_media(each, media, depth + 1) for each in _ALL.decode(value)])
    fields = _FIELDS.decode(value)
    for name in ("content", "output", "source"):
        if name in fields:
            fields[name] = _with_media(fields[name], media, depth + 1)
    if "source" in fields:
        fields["source"] = _source(fields["source"], media)
    for name in KINDS:
        if name in fields:
            fields[name] = _member(fields[name], media)
    return _raw(fields)


def _source(value: msgspec.Raw, media: Mapping[str, Fetched]) -> msgspec.Raw:
    """Anthropic's."""
    if begins(value) != b"{":
        return value
    fields = _FIELDS.decode(value)
    url = address_in(fields.get("url", NULL))
    if not url:
        return value
    del fields["url"]
    fetched = media[url]
    told = {"type": "base64", "media_type": fetched.type, "data": fetched.data}
    return _raw({**fields, **told})


def _member(value: msgspec.Raw, media: Mapping[str, Fetched]) -> msgspec.Raw:
    if url := address_in(value):
        return _raw(media[url].data_url)
    if begins(value) != b"{":
        return value
    fields = _FIELDS.decode(value)
    for name in ("url", "data"):
        if url := address_in(fields.get(name, NULL)):
            fields[name] = _raw(media[url].data_url)
    return _raw(fields)


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
