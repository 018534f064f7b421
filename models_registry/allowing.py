"""Which presets somebody may use, by lists of names and patterns. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from models_registry.names import ANY, twin_of

Allowed = tuple[tuple[str, ...], ...]
"""Lists that must each have a name of the preset: a key's own, and its team's. None: all."""


def may_use(names: Collection[str], allowed: Sequence[Sequence[str]]) -> bool:
    """`names` are a preset's own and its aliases: each list must have one of them, as it is
    written, as clients of Ollama write it (`x:latest`), or by a pattern (`qwen*`)."""
    return all(any(_has(each, name) for name in names) for each in allowed)


def _has(patterns: Sequence[str], name: str) -> bool:
    twin = twin_of(name)
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith(ANY) else pattern in (name, twin)
        for pattern in patterns
    )
