"""Which presets a list leaves out because another one runs the same file. Pure."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A preset as far as that is concerned. `found_in_cache`: it was found in the Hugging Face
    cache, and nobody has said anything of it since. `hides`: dedup-cache-models counts for it."""

    name: str
    files: tuple[str, ...]  # the model, and its draft model where it has one
    found_in_cache: bool
    hides: bool


def hidden_names(
    candidates: Iterable[Candidate], resolve: Callable[[str], str] = os.path.realpath
) -> frozenset[str]:
    """llama.cpp's dedup-cache-models: cache entries whose file a preset that hides runs as well.
    They are asked for by name as before."""
    presets = list(candidates)
    shown = {
        resolve(path)
        for each in presets
        if each.hides and not each.found_in_cache
        for path in each.files
        if path
    }
    if not shown:
        return frozenset()
    return frozenset(
        each.name for each in presets if each.found_in_cache and resolve(each.files[0]) in shown
    )
