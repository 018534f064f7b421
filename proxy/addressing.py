"""Which model a request names. Nothing here waits or keeps anything."""

from __future__ import annotations

import codecs
from mmap import mmap
from urllib.parse import parse_qsl

import msgspec

from proxy.bounds import Bounded, excess
from proxy.form import is_form, model_in_form
from proxy.headers import RawHeaders
from proxy.objects import ObjectTooLarge, check_objects
from scheduler.protocol import Refused

MOST_FIELDS = 100
"""Of a query that is looked at."""

LONGEST_MODEL = 200
"""Characters of a preset's or an alias's name. A longer one is unknown without asking anybody."""


class _Body(Bounded):
    """What the gateway needs to know of a body; the child reads the rest. Nothing else is built:
    a small body of many values would take a hundred times its size."""

    model: str | None = None


class _Occurrence:
    """msgspec hands a type that it does not know to `dec_hook`, once for every key of that name."""


class _Occurrences(msgspec.Struct):
    model: _Occurrence | msgspec.UnsetType = msgspec.UNSET


_DECODER = msgspec.json.Decoder(_Body)


def address(body: bytes | mmap) -> str:
    """The model's name, or nothing where the body names none: the default is meant, if there is
    one. Raises Refused when the body is not one JSON object that names one model at most.

    The whole body is checked, so that nothing is loaded for a request that a child would refuse as
    malformed. A `model` that is neither a string nor null counts as missing. The time is at
    most about 7 ns a byte, and nothing else of Python's runs meanwhile.
    """
    try:
        model, fault = _read(body)
        if _may_name_two(body):
            _refuse_two(body)
        _check_utf8(body)
        check_objects(body)
    except msgspec.ValidationError as error:
        if "$.model" in str(error):
            raise _model_missing() from error
        raise Refused(
            "invalid_request", f"The body must be a JSON object with usable values: {error}."
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused("invalid_json", f"The body is not valid JSON: {error}.") from error
    except ObjectTooLarge as error:
        raise Refused("invalid_request", f"The body's JSON {error}.") from error
    except RecursionError as error:
        raise Refused("invalid_json", "The body's JSON is nested too deeply.") from error
    if fault:
        raise Refused("invalid_request", fault)
    return _sane(model or "")


def _read(body: bytes | mmap) -> tuple[str | None, str]:
    """The model, and what of the rest is too much. Here, so that nothing of what was read is left
    when a refusal is raised: it refers to the body, which could not be closed."""
    read = _DECODER.decode(body)
    return read.model, excess(read)


def address_form(body: bytes | mmap, content_type: bytes) -> str:
    """The same for a multipart form. Raises Refused."""
    return _sane(model_in_form(body, content_type))


def form_type(headers: RawHeaders) -> bytes | None:
    """The Content-Type of a multipart form; None for any other body."""
    for name, value in headers:
        if name == b"content-type" and is_form(value):
            return value
    return None


def names_a_model(query: bytes) -> bool:
    return b"model=" in query


def address_query(query: bytes) -> str:
    """The same for the query of a GET, which must name one. Raises Refused."""
    try:
        pairs = parse_qsl(query.decode("ascii"), max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError as error:  # too many fields, or no UTF-8
        raise Refused("invalid_request", f"The query cannot be read: {error}.") from error
    named = [value for name, value in pairs if name == "model"]
    if len(named) > 1:
        raise Refused("invalid_request", "The query has more than one `model`: send one.")
    if not named or not named[0]:
        raise Refused(
            "model_missing", "The query must name a model: ?model=NAME; GET /v1/models lists them."
        )
    return _sane(named[0])


def _sane(model: str) -> str:
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
