"""Which presets somebody may use, by lists of names and patterns. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from models_registry.names import ANY, twin_of

Allowed = tuple[tuple[str, ...], ...]
"""Lists that must each have a name of the preset: a key's own, and its team's. None: all."""


def may_use(names: Iterable[str], allowed: Allowed) -> bool:
    """`names` are a preset's own and its aliases: each list must have one of them, as it is
    written, as clients of Ollama write it (`x:latest`), or by a pattern (`qwen*`)."""
    names = [*names]
    return all(any(_has(each, name) for name in names) for each in allowed)


def _has(patterns: tuple[str, ...], name: str) -> bool:
    exact, beginnings = _divided(patterns)
    return name in exact or twin_of(name) in exact or name.startswith(beginnings)


@lru_cache(1024)
def _divided(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    exact = frozenset(each for each in patterns if not each.endswith(ANY))
    return exact, tuple(each[:-1] for each in patterns if each.endswith(ANY))
