"""Which names are nearly the one that somebody wrote. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache

MOST = 3
_COMPARED = 20
"""How many are compared letter by letter: that takes ten times as long as the rest."""
_SHARED = 0.3
_LIKE = 0.6


def near_names(wanted: str, known: Sequence[str]) -> list[str]:
    """Of `known` those that are most like `wanted`, the nearest first, in quotes; capitals count
    for nothing. A thousand names take about a millisecond."""
    wanted = wanted.casefold()
    pairs = _pairs(wanted)
    shared = ((_share(pairs, _pairs(name.casefold())), name) for name in known)
    likely = heapq.nlargest(_COMPARED, (each for each in shared if each[0] >= _SHARED))
    compared = ((_likeness(wanted, name.casefold()), name) for _, name in likely)
    nearest = sorted((-like, name) for like, name in compared if like >= _LIKE)
    return [f"'{name}'" for _, name in nearest[:MOST]]


@lru_cache(maxsize=4096)
def _pairs(text: str) -> frozenset[str]:
    """Each two neighbouring characters, the ends marked."""
    marked = f"^{text}$"
    return frozenset(marked[at : at + 2] for at in range(len(marked) - 1))


def _share(one: frozenset[str], other: frozenset[str]) -> float:
    """Of the smaller one, so that a part of a long name counts."""
    return len(one & other) / min(len(one), len(other))


def _likeness(wanted: str, name: str) -> float:
    """From 0 to 1. What stands in front of a slash, or behind a colon, may be left out."""
    parts = {name, name.rpartition("/")[2], name.partition(":")[0]}
    parts.add(name.rpartition("/")[2].partition(":")[0])
    return max(SequenceMatcher(None, part, wanted).ratio() for part in parts if part)
