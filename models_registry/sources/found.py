"""What a source holds, whichever it is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from models_registry.model_paths import FilesState

LONGEST_PATH = 1024
"""Characters: what ModelFile.path holds."""

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that mean something to a terminal."""

Stamp = tuple[tuple[str, int, int], ...]
"""(path, bytes, mtime in ns) of each file, as model_paths.files_state has it."""


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model on disk. `size` is the bytes of all its shards. It answers to `aliases` as well where
    they are free. `options` are the engine's, by key, as the source has them beside the model;
    `notes` say what of the source could not be taken."""

    name: str
    path: str
    mmproj: str = ""
    draft: str = ""
    size: int = 0
    aliases: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    stamp: Stamp = ()


@dataclass(slots=True)
class Contents:
    """`unknown` are paths whose state could not be learned: what is at or below them may exist."""

    models: list[FoundModel] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def complain(self, path: str, words: str) -> None:
        """Whatever the name holds, the sentence can be printed and stored."""
        shown = CONTROL.sub("\ufffd", os.fsencode(path).decode(errors="replace"))
        self.problems.append(f"{shown}: {words}")
        self.unknown.append(path)

    def add(self, model: FoundModel, state: FilesState) -> None:
        """With what is amiss with its files: it is offered all the same, and says so when asked."""
        if state.problem:
            self.problems.append(f"{model.path}: {state.problem}")
        self.models.append(model)
