"""The event log: each event that the core was told and what it decided then, as lines of JSON.
`manage.py replay` feeds it to a planner again, and the simulator takes it as a trace. No Django is
imported here.

A file is one part of one life of a scheduler: `events-<life>-0001.jsonl`, `-0002` and so on; its
first line is a Header. A planner's state is the sum of all events since its start, so a part can be
replayed only after the parts before it (`read_life`); as a trace each part stands by itself, for
its header has the presets as they were.

What clients wrote does not stand in it. The last words of a child could quote them, so they are
left out: the record has them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args

import msgspec

from scheduler.core.decisions import AskExit, Decision, Drain, Kill, Reject, Start, WakeAt
from scheduler.core.events import Event, Exited, PresetsChanged
from scheduler.core.values import Config, PresetSpec

VERSION = 1

EVENTS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}
DECISIONS: dict[str, type[Decision]] = {kind.__name__: kind for kind in get_args(Decision)}

# JSON has no infinity: in these it is written as the word, and read from it.
_MAY_BE_ENDLESS = (PresetsChanged, Start, Drain, AskExit, Kill, WakeAt)


class CannotRead(Exception):
    """It is no event log of this version; the message says which line, and why."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a part. `began` is the time of day (ISO 8601) at `now`, which is monotonic
    seconds as in every step. `presets` are those known when the part begins."""

    life: str
    part: int
    began: str
    now: float
    config: Config
    presets: tuple[PresetSpec, ...] = ()
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Step:
    """What the core was told, when (monotonic seconds), and what it decided. `number` is the line
    in its file, from 1."""

    number: int
    now: float
    event: Event
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """So many steps are missing here: the writer did not keep up."""

    number: int
    lost: int


Line = Header | Step | Gap


def part_name(life: str, part: int) -> str:
    return f"events-{life}-{part:04d}.jsonl"


def read_event_log(path: Path) -> Iterator[Line]:
    """One part, line by line: a Header first. A last line that a kill has cut is left out. Raises
    CannotRead, and OSError."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            try:
                read = _decoded(line, number)
            except (msgspec.DecodeError, KeyError) as failure:
                what = f"no event log of version {VERSION}" if number == 1 else "not understood"
                raise CannotRead(f"{path}, line {number}: {what}: {failure}") from failure
            if isinstance(read, Header) is not (number == 1):
                raise CannotRead(f"{path}, line {number}: a header belongs to the first line alone")
            yield read


def read_life(path: Path) -> Iterator[tuple[Path, Line]]:
    """Everything since the scheduler's start, up to the end of the part at `path`. Raises
    CannotRead where an earlier part is missing: nothing can be replayed without it."""
    first = next(read_event_log(path), None)
    if not isinstance(first, Header):
        raise CannotRead(f"{path} is empty")
    before = [path.with_name(part_name(first.life, part)) for part in range(1, first.part)]
    if missing := [part.name for part in before if not part.exists()]:
        raise CannotRead(
            f"{path.name} is part {first.part} of a scheduler's life, and needs all those before "
            f"it; missing: {', '.join(missing)}"
        )
    for part in (*before, path):
        for line in read_event_log(part):
            yield part, line


# Values to lines ------------------------------------------------------------------------------


def encode_header(header: Header) -> bytes:
    return msgspec.json.encode({"header": _finite(header)}) + b"\n"


def encode_step(now: float, event: Event, decisions: Sequence[Decision]) -> bytes:
    if isinstance(event, Exited):
        event = replace(event, exit=replace(event.exit, words=""))
    told = [_tagged(decision_without_words(decision)) for decision in decisions]
    step = {"at": now, "event": _tagged(event), "decisions": told}
    return msgspec.json.encode(step) + b"\n"


def encode_gap(lost: int) -> bytes:
    return msgspec.json.encode({"lost": lost}) + b"\n"


def decision_without_words(decision: Decision) -> Decision:
    """As it stands in the log."""
    if not isinstance(decision, Reject) or decision.refusal.exit is None:
        return decision
    wordless = replace(decision.refusal.exit, words="")
    return replace(decision, refusal=replace(decision.refusal, exit=wordless))


def _tagged(said: Event | Decision) -> tuple[str, object]:
    return type(said).__name__, _finite(said) if isinstance(said, _MAY_BE_ENDLESS) else said


def _finite(value: Any) -> Any:
    """The same without values that JSON cannot hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if is_dataclass(value):
        return {field.name: _finite(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_finite(each) for each in value]
    return value


# Lines to values ------------------------------------------------------------------------------


class _Written(msgspec.Struct):
    """Any of the three kinds of line."""

    header: msgspec.Raw = msgspec.Raw()
    lost: int | None = None
    at: float = 0.0
    event: tuple[str, msgspec.Raw] | None = None
    decisions: list[tuple[str, msgspec.Raw]] = []


_LINES = msgspec.json.Decoder(_Written)


def _decoded(line: bytes, number: int) -> Line:
    """Raises msgspec.DecodeError, and KeyError for a kind of event or decision not known here."""
    written = _LINES.decode(line)
    if written.event is not None:
        event: Event = _said(*written.event, EVENTS)
        decided = tuple(_said(name, body, DECISIONS) for name, body in written.decisions)
        return Step(number, written.at, event, decided)
    if written.lost is not None:
        return Gap(number, written.lost)
    header = msgspec.json.decode(bytes(written.header), type=Header, strict=False)
    if header.version != VERSION:
        raise msgspec.ValidationError(f"it has version {header.version}")
    return header


def _said(name: str, body: msgspec.Raw, kinds: dict[str, Any]) -> Any:
    return msgspec.json.decode(body, type=kinds[name], strict=False)
