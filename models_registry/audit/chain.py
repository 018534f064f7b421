"""The chain: each record's digest is of its own columns and of the digest before it, so that one
that is altered, left out or put in between is found. Pure.

SHA-256 of the digest before (64 zeros before the first), a line feed, and the columns as a compact
JSON array in UTF-8, in the order of COLUMNS. Times are UTC with six digits: docs/audit.md says it
too, so that an export can be checked by anybody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

COLUMNS = (
    "number", "at", "kind", "actor", "user", "key", "door", "origin", "action", "object_type",
    "object_id", "object_name", "team", "changes", "note", "request_id", "prunes_through",
)  # fmt: skip
_encode = msgspec.json.Encoder().encode

BEFORE_THE_FIRST = "0" * 64
PRUNED = "pruned"


def moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def digest(before: str, values: Sequence[Any]) -> str:
    """`values` are those of COLUMNS, `at` as `moment` writes it."""
    return hashlib.sha256(b"%b\n%b" % (before.encode(), _encode(values))).hexdigest()


@dataclass(frozen=True, slots=True)
class Link:
    """A record, as far as the chain is concerned."""

    values: tuple[Any, ...]
    digest: str

    @property
    def number(self) -> int:
        number: int = self.values[0]
        return number

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Link:
        """`row` has a record's columns by name; `at` is a time, or as it is exported."""
        at = row["at"]
        told = {**row, "at": at if isinstance(at, str) else moment(at)}
        return cls(tuple(told[name] for name in COLUMNS), row["digest"])

    def pruned(self) -> tuple[int, str] | None:
        """The last record that it removed, and that one's digest."""
        told = dict(zip(COLUMNS, self.values, strict=True))
        if told["prunes_through"] is None or told["action"] != PRUNED:
            return None
        found = msgspec.json.decode(told["changes"]).get("digest", [None, ""])
        return told["prunes_through"], str(found[1])


@dataclass(slots=True)
class Verdict:
    """What was found; `problems` are sentences."""

    count: int = 0
    first: int = 0
    last: int = 0
    digest: str = BEFORE_THE_FIRST
    problems: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not self.problems


MOST_TOLD = 100


def verify(links: Iterable[Link], *, expect: str = "", is_part: bool = False) -> Verdict:
    """`links` the oldest first. `expect` is a digest that was noted once, and must be among them;
    `is_part`: they are some of the trail, whose beginning need not be there."""
    walk = _Walk(expect, is_part=is_part)
    for link in links:
        walk.take(link)
    return walk.end()


class _Walk:
    def __init__(self, expect: str, *, is_part: bool) -> None:
        self._expect = expect
        self._is_part = is_part
        self._found: Verdict = Verdict()
        self._expected_seen = not expect
        self._beginning: tuple[int, str] = (0, BEFORE_THE_FIRST)
        """The last record that was removed, by what the trail says, and its digest."""
        self._waits: Link | None = None
        """The first one, until it is known what was before it."""

    def take(self, link: Link) -> None:
        found = self._found
        if found.count == 0:
            found.first = link.number
            self._waits = link
        elif link.number != found.last + 1:
            self._tell(f"between {found.last} and {link.number} records are missing")
            if digest(found.digest, link.values) == link.digest:
                self._tell(f"{link.number} was numbered anew")
        elif digest(found.digest, link.values) != link.digest:
            self._tell(f"{link.number} is not as it was written, or {found.last} is not")
        pruned = link.pruned()
        if pruned is not None and pruned > self._beginning:
            self._beginning = pruned
        found.count += 1
        found.last, found.digest = link.number, link.digest
        self._expected_seen |= link.digest == self._expect

    def end(self) -> Verdict:
        if self._waits is not None:
            self._check_beginning(self._waits)
        if self._beginning[1] == self._expect:
            self._expected_seen = True
        if not self._expected_seen:
            self._tell(
                f"no record has the digest {self._expect}: the trail was cut or written anew"
            )
        return self._found

    def _check_beginning(self, first: Link) -> None:
        through, before = self._beginning
        if first.number == through + 1:
            if digest(before, first.values) != first.digest:
                self._tell(f"{first.number}, the first, is not as it was written")
        elif not self._is_part:
            removed = f"records up to {through}" if through else "none"
            self._tell(f"it begins with {first.number}, where {removed} were removed on record")

    def _tell(self, problem: str) -> None:
        if len(self._found.problems) < MOST_TOLD:
            self._found.problems.append(problem)


def chained(before: str, rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """The digests of new records, whose values are `rows`."""
    for values in rows:
        before = digest(before, values)
        yield before
