"""What the owner tells the record: values, so that the owner needs no database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from scheduler.core.sizes import NOTHING_GRANTED, Grant, Need
from scheduler.core.values import Exit, InstanceId


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Started:
    """A child is being started for the preset, as the registry was at `revision`, with what it was
    granted; `figures` is the fingerprint of the measurement that this rests on, if on one."""

    instance: InstanceId
    preset: str
    revision: int
    grant: Grant = NOTHING_GRANTED
    figures: str = ""
    at: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class Loaded:
    """It is ready, for the first time or after a wake."""

    instance: InstanceId
    pid: int | None
    argv: tuple[str, ...]
    at: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class Allocated:
    """It says what it has allocated."""

    instance: InstanceId
    need: Need


@dataclass(frozen=True, slots=True)
class Cached:
    """Of its files, which part was in memory when its load began: 0 to 1."""

    instance: InstanceId
    share: float


@dataclass(frozen=True, slots=True)
class Gone:
    """It has been reaped, or could not be started."""

    instance: InstanceId
    pid: int | None
    argv: tuple[str, ...]
    reason: str
    exit: Exit
    at: datetime = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision that people may ask about: why it was loaded, evicted, drained, refused."""

    kind: str
    preset: str
    instance: InstanceId | None
    reason: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    at: datetime = field(default_factory=_now)


Entry = Started | Loaded | Allocated | Cached | Gone | Decided
Record = Callable[[Entry], None]
