"""What the core answers: things to be done. Each reason is recorded and shown to people."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum, auto

from .sizes import NOTHING_GRANTED
from .sizes import Grant as MemoryGrant
from .values import InstanceId, PresetName, PresetSpec, Refusal, RequestId


class Reason(StrEnum):
    """Why an instance starts, drains or goes; it travels to UNLOADED and into the record."""

    REQUESTED = auto()  # a waiter needs it
    STARTUP = auto()
    EVICTED = auto()  # its room is needed for `for_preset`
    IDLE = auto()  # its keep-alive has passed
    OVER_LIMIT = auto()  # somebody lowered what may be used of a device below what is held there
    HUNG = auto()  # it did not answer
    REPLACED = auto()  # its options changed
    MOVED = auto()  # it slept where it cannot be awake any more: it starts elsewhere
    REMOVED = auto()  # its preset was deleted
    UNLOADED = auto()  # a person asked
    UNWANTED = auto()  # a load whose waiters all left, killed because the head needs its loader
    STOP_TIMEOUT = auto()  # asked to exit and did not
    LOAD_STALLED = auto()  # no progress of its load, or of its wake, for too long
    SHUTDOWN = auto()
    NO_LONGER_NEEDED = auto()  # a drain undone


Figures = tuple[tuple[str, str | int | float], ...]
"""What a decision rests on, by name: seconds, bytes, counts, presets (V4). Two decisions are the
same whatever their figures."""


@dataclass(frozen=True, slots=True)
class Start:
    instance: InstanceId
    preset: PresetSpec
    reason: Reason
    figures: Figures = field(default=(), compare=False)
    grant: MemoryGrant = NOTHING_GRANTED


@dataclass(frozen=True, slots=True)
class Wake:
    """Make a sleeping child load again. It answers with LoadingReported, then ReadyReported."""

    instance: InstanceId


@dataclass(frozen=True, slots=True)
class Drain:
    """It keeps its leases and takes no new one."""

    instance: InstanceId
    reason: Reason
    for_preset: PresetName | None = None
    figures: Figures = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Undrain:
    instance: InstanceId
    reason: Reason


@dataclass(frozen=True, slots=True)
class AskExit:
    """Ask by stdin. The core itself says Kill when the preset's stop time-out has passed."""

    instance: InstanceId
    reason: Reason
    for_preset: PresetName | None = None
    figures: Figures = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL to the child's process group."""

    instance: InstanceId
    reason: Reason
    for_preset: PresetName | None = None
    figures: Figures = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Grant:
    """The lease is counted in the step that says this. A LOAD or STARTUP waiter gets it when its
    model is loaded, and holds no slot."""

    request: RequestId
    instance: InstanceId


@dataclass(frozen=True, slots=True)
class Reject:
    request: RequestId
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Revoke:
    """The lease is over and nobody has released it: its instance has exited, the slot of one that
    was abandoned is idle, or the time of a look is up."""

    request: RequestId
    instance: InstanceId


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Tell me Ticked at this time (monotonic seconds), at the latest."""

    when: float


Decision = Start | Wake | Drain | Undrain | AskExit | Kill | Grant | Reject | Revoke | WakeAt
