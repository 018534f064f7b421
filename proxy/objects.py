"""How many keys one object of a body may have.

llama-server's objects keep their keys in a list: the time it takes to read one grows with the
square of its keys (20,000 took 5 s, 200,000 two minutes, with the slot taken for so long after the
client had left). No request that means anything has so many.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from mmap import mmap
from typing import Any

MOST_KEYS = 4000
"""In one object: a few hundredths of a second."""

MOST_IN_ALL = 400_000
LARGEST = 32 << 20

_SHORTEST_KEY = len(b'"":0,')
_KEY_ENDS = re.compile(rb'"[ \t\r\n]*:')


class ObjectTooLarge(Exception):
    """The message says of what there is too much."""


def check_objects(body: bytes | mmap) -> None:
    """For valid JSON. Raises ObjectTooLarge. Almost every body is told by its size, or by the
    number of its keys altogether; only others are taken apart, in some twenty times their size."""
    if len(body) < MOST_KEYS * _SHORTEST_KEY:
        return
    keys = sum(1 for _ in islice(_KEY_ENDS.finditer(body), MOST_IN_ALL + 1))
    if keys <= MOST_KEYS:
        return
    if keys > MOST_IN_ALL:
        raise ObjectTooLarge(f"has more than {MOST_IN_ALL} keys")
    if len(body) > LARGEST:
        raise ObjectTooLarge(
            f"has more than {MOST_KEYS} keys and is larger than {LARGEST} bytes: whether an object "
            "has too many of them is not looked for in so much"
        )
    json.loads(bytes(body), object_pairs_hook=_refuse_large, parse_int=_none, parse_float=_none)


def _refuse_large(pairs: list[tuple[str, Any]]) -> None:
    """Nothing of an object is kept but that it was there."""
    if len(pairs) > MOST_KEYS:
        raise ObjectTooLarge(f"has an object of more than {MOST_KEYS} keys")


def _none(number: str) -> None:
    """A number of a million digits takes Python long to read."""
