"""What a download will fetch: its files with their checksums, and where each comes to lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


class Refused(Exception):
    """The download cannot be done, and trying again would not help; the message is for people."""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file. `size` is None while nobody has said it; `checksum` is `sha256:…`, `git:…` (the
    SHA-1 of a git blob) or empty. `at` is where its bytes come to lie, `link` what points there in
    a shared cache, `part` the unfinished file, `lock` who may write it. `role`: model, mmproj,
    draft. `validator` is the server's own mark of this state of a file without a checksum."""

    path: str
    url: str
    size: int | None
    checksum: str
    at: str
    part: str
    lock: str
    link: str = ""
    role: str = "model"
    validator: str = ""

    @property
    def place(self) -> str:
        """Where programs find it."""
        return self.link or self.at

    def is_there(self) -> bool:
        """Whole: it gets its name only when it is."""
        found = Path(self.at)
        return found.is_file() and (self.size is None or found.stat().st_size == self.size)

    def part_size(self) -> int:
        try:
            return Path(self.part).stat().st_size
        except OSError:
            return 0


@dataclass(frozen=True, slots=True)
class Plan:
    """`folder` is where there must be room. `reference` is a file that is to hold the commit, once
    all are there; empty where there is none."""

    name: str
    folder: str
    files: tuple[PlannedFile, ...]
    commit: str = ""
    reference: str = ""
    notes: tuple[str, ...] = field(default=())

    def of_role(self, role: str) -> PlannedFile | None:
        return next((file for file in self.files if file.role == role), None)


def as_json(plan: Plan) -> list[dict[str, Any]]:
    """As the row keeps them: `done` is added while it is fetched."""
    return [{**asdict(file), "done": 0} for file in plan.files]


def from_json(rows: list[Mapping[str, Any]]) -> tuple[PlannedFile, ...]:
    names = PlannedFile.__slots__
    return tuple(PlannedFile(**{name: row[name] for name in names}) for row in rows)
