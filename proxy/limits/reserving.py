"""What a request may use at most, before it is known: reserved of its limits, and settled later."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from mmap import mmap
from typing import Any

import msgspec

from proxy.body import Body
from proxy.callers import Caller
from proxy.parsing import Parsing
from proxy.usage.counting import WITHOUT_TEXT, WITHOUT_TOKENS, prompt_estimate
from scheduler.charging import NO_CHARGE, Charge

TOKENS_A_BLOB = 1024
"""Of an image, or what else a body has in it that is no text."""
LEAST_BLOB = 2048
"""Bytes of base64 without a break: no text has such words."""
_STEP = LEAST_BLOB // 2
_BASE64 = bytes(range(65, 91)) + bytes(range(97, 123)) + b"0123456789+/"
_RUN = re.compile(rb"[A-Za-z0-9+/]*={0,2}")
MOST_CHOICES = 1024


class _Caps(msgspec.Struct):
    """How long clients say that an answer may be, in each of their dialects. What is no number is
    for the child to refuse."""

    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    n_predict: Any = None
    num_predict: Any = None
    n: Any = None


_decode = msgspec.json.Decoder(_Caps).decode


async def charge_of(
    caller: Caller, id: str, path: str, body: Body, parsing: Parsing, *, is_json: bool
) -> Charge:
    """Nothing is looked at for a caller without limits; nor is the body where none of them counts
    tokens, or where none can be used."""
    if not caller.limits:
        return NO_CHARGE
    if path in WITHOUT_TOKENS or not any(limit.counts_tokens for limit in caller.limits):
        return Charge(caller.limits, id, 0, 0)
    if not is_json:
        return Charge(caller.limits, id)
    prompt, cap = await parsing.run(body, partial(_look, body))
    return Charge(caller.limits, id, prompt, 0 if path in WITHOUT_TEXT else cap)


def _look(body: Body) -> tuple[int, int | None]:
    with body.view() as view:
        return prompt_tokens(view), answer_cap(view)


def prompt_tokens(body: bytes | mmap) -> int:
    """By the bytes of its text; an image counts as one, however many bytes it has."""
    found = list(blobs(body))
    return prompt_estimate(len(body) - sum(found)) + TOKENS_A_BLOB * len(found)


async def prompt_of(body: Body, parsing: Parsing) -> int:
    """The same of a body of any size."""
    return await parsing.run(body, partial(_prompt_in, body))


def _prompt_in(body: Body) -> int:
    with body.view() as view:
        return prompt_tokens(view)


def blobs(body: bytes | mmap) -> Iterator[int]:
    """The sizes of what is base64. Whatever is that long covers a whole step somewhere, so that
    a text is looked into only where a step begins."""
    at, size = 0, len(body)
    while at + _STEP <= size:
        match = _RUN.match(body, at)
        assert match is not None  # it may be empty
        end = match.end()
        if end - at >= _STEP:
            before = body[max(0, at - _STEP) : at]
            begin = at - (len(before) - len(before.rstrip(_BASE64)))
            if len(body[end - 2 : end].rstrip(b"=")) + end - 2 - begin >= LEAST_BLOB:
                yield end - begin
            at = -(-end // _STEP) * _STEP
        else:
            at += _STEP


def answer_cap(body: bytes | mmap) -> int | None:
    """Of all its answers together; None where it does not say."""
    try:
        found = _decode(body)
    except msgspec.DecodeError:
        return None  # it names no model either, or is refused by whoever reads it
    caps = (
        found.max_tokens,
        found.max_completion_tokens,
        found.max_output_tokens,
        found.n_predict,
        found.num_predict,
    )
    said = [int(cap) for cap in caps if _is_number(cap) and cap >= 0]
    choices = found.n if _is_number(found.n) and 1 <= found.n <= MOST_CHOICES else 1
    return int(max(said) * choices) if said else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
