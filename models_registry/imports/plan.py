"""What an import would make, and what of the file cannot be taken. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Skipped:
    """What is not made: of which name, and why."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """A group that the presets of the plan name."""

    name: str
    one_at_a_time: bool
    exclusive: bool
    persistent: bool


@dataclass(frozen=True, slots=True)
class PlannedPreset:
    """A preset to make. Its model file is the one at `model` (a path), or that of the preset called
    `like`, on which it then stands if it `inherits`. `fields` are as editing.create_preset takes
    them; `aliases` are names with what each sets in requests."""

    name: str
    model: str = ""
    mmproj: str = ""
    draft: str = ""
    like: str = ""
    inherits: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    group: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """`notes` are sentences about what is not taken, or taken otherwise, with their lines."""

    presets: tuple[PlannedPreset, ...] = ()
    groups: tuple[PlannedGroup, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class ImportReport:
    """What an import did, or would do: names that were added or changed, names that were not and
    why."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dry_run: bool = False

    def lines(self) -> list[str]:
        """For people."""
        added, changed = ("would add", "would change") if self.dry_run else ("added", "changed")
        return [
            *(f"{added} {name}" for name in self.added),
            *(f"{changed} {name}" for name in self.changed),
            *(f"not taken: {skipped}" for skipped in self.skipped),
            *self.notes,
        ]
