"""What a request may use at most, before it is known: reserved of its limits, and settled later."""

from __future__ import annotations

import re
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
_BLOB = re.compile(rb"[A-Za-z0-9+/]{2048,}={0,2}")
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
    blobs = [match.end() - match.start() for match in _BLOB.finditer(body)]
    return prompt_estimate(len(body) - sum(blobs)) + TOKENS_A_BLOB * len(blobs)


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
