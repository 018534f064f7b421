"""The model that a multipart form names: its field `model`, wherever it stands in the form."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from proxy.bounds import BOUNDED, MOST_LOOKED_AT, excess_in_form
from scheduler.protocol import Refused

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

LONGEST_FIELD = 200
"""Bytes of the field's value that are kept: no model has a longer name."""

MOST_PARTS = 1000
_AT_ONCE = 1 << 20


def is_form(content_type: bytes) -> bool:
    return content_type.partition(b";")[0].strip().lower() == b"multipart/form-data"


def model_in_form(body: bytes | mmap, content_type: bytes) -> str:
    """The name; empty when there is no such field. Raises Refused for what is no form, for a field
    that is empty, for two of them, and for what never ends. Nothing of the files in it is kept."""
    model = _read(body, content_type).model
    if model is not None and not model:
        raise Refused("model_missing", "The form's `model` is empty: GET /v1/models lists them.")
    try:
        return bytes(model or b"").decode()
    except UnicodeDecodeError as error:
        raise Refused("invalid_request", "The form's `model` is not valid UTF-8.") from error


def named(body: bytes | mmap, content_type: bytes, name: bytes) -> tuple[slice, bytes]:
    """What in the body is to be replaced, and by what, so that the form names this model; one that
    names none gets a part for it before its first. Raises Refused as above, and for a name that is
    not in one piece there."""
    reading = _read(body, content_type)
    if reading.model is None:
        delimiter = b"--" + _boundary(content_type)
        at = body.find(delimiter)
        head = b'\r\nContent-Disposition: form-data; name="model"\r\n\r\n'
        return slice(at, at), delimiter + head + name + b"\r\n"
    begin, end = reading.place
    if not reading.model or body[begin:end] != reading.model:
        raise Refused("invalid_request", "The form's `model` holds what no name does.")
    return slice(begin, end), name


def _boundary(content_type: bytes) -> bytes:
    boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
    if not boundary:
        raise Refused("invalid_request", "The multipart body's Content-Type names no boundary.")
    return boundary


def _read(body: bytes | mmap, content_type: bytes) -> _Reading:
    boundary = _boundary(content_type)
    reading = _Reading()
    try:
        parser = MultipartParser(boundary, reading.callbacks())
        for part in _parts(body):
            reading.piece = part
            parser.write(part)
            reading.before += len(part)
        parser.finalize()
    except FormParserError as error:
        raise Refused("invalid_request", f"The multipart body cannot be read: {error}.") from error
    if not reading.ended:
        raise Refused("invalid_request", "The multipart body ends before its last boundary.")
    fields = {name.decode(): bytes(value) for name, value in reading.bounded.items()}
    if fault := excess_in_form(fields):
        raise Refused("invalid_request", fault)
    return reading


def _parts(body: bytes | mmap) -> Iterator[bytes]:
    for start in range(0, len(body), _AT_ONCE):
        yield body[start : start + _AT_ONCE]


class _Reading:
    """What the parser tells, and what of it counts."""

    def __init__(self) -> None:
        self.model: bytearray | None = None
        self.place = (0, 0)
        """Where its value begins and ends, as far as that stands in the body as it is."""
        self.piece = b""
        """What the parser is reading, and how many bytes came before it."""
        self.before = 0
        self.ended = False
        self.bounded: dict[bytes, bytearray] = {}
        """Fields of which an engine would take too much, as far as they are looked at."""
        self._field: bytearray | None = None
        self._parts = 0
        self._header = b""
        self._value = b""
        self._is_model = False

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._name,
            "on_header_value": self._told,
            "on_header_end": self._header_ends,
            "on_part_data": self._data,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise Refused("invalid_request", f"The form has more than {MOST_PARTS} parts.")
        self._is_model, self._field = False, None
        self._header = self._value = b""

    def _name(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _told(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_ends(self) -> None:
        if self._header.strip().lower() == b"content-disposition":
            told = parse_options_header(self._value)[1]
            name = told.get(b"name", b"")
            if name in BOUNDED:
                self._field = self.bounded.setdefault(name, bytearray())
            if name == b"model" and b"filename" not in told:
                if self.model is not None:
                    raise Refused(
                        "invalid_request", "The form has more than one `model`: send one."
                    )
                self.model, self._is_model = bytearray(), True
        self._header = self._value = b""

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._is_model and self.model is not None and len(self.model) <= LONGEST_FIELD * 4:
            if data is self.piece:
                begin = self.place[0] if self.model else self.before + start
                self.place = begin, self.before + end
            self.model += data[start:end]
        if self._field is not None and len(self._field) < MOST_LOOKED_AT:
            self._field += data[start : min(end, start + MOST_LOOKED_AT)]

    def _end(self) -> None:
        self.ended = True
