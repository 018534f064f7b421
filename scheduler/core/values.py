"""The nouns of scheduling, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto
from typing import NewType

PresetName = NewType("PresetName", str)
TenantId = NewType("TenantId", str)
NO_TENANT = TenantId("")
InstanceId = NewType("InstanceId", int)
RequestId = NewType("RequestId", int)
"""One request from its arrival to its end: as a waiter first, then as the lease it was granted."""


class Kind(StrEnum):
    """What asks for a model."""

    POST = auto()  # a request with a body: counts as use
    WEBSOCKET = auto()  # counts as use at its start
    LOAD = auto()  # a person's load request: a waiter without a request behind it (A10)
    STARTUP = auto()  # load-on-startup: never evicts, is skipped when it does not fit (A10)


class Code(StrEnum):
    """Why the core refuses. The wire's statuses and texts stand in scheduler/protocol.py."""

    MODEL_NOT_FOUND = auto()
    MODEL_REMOVED = auto()
    MODEL_LOAD_FAILED = auto()  # the child died while loading; `exit` says how
    MODEL_BACKING_OFF = auto()  # it failed a moment ago; nothing is evicted for it meanwhile (A4)
    MODEL_BROKEN = auto()  # its last load failed, and another try would evict someone (A4)
    OUT_OF_MEMORY = auto()  # three loads in a row ran out of memory (A4)
    BLOCKED_BY_PINNED = auto()  # only pinned instances stand in the way, and they stay
    DOES_NOT_FIT = auto()  # a start-up load that would have to evict
    QUEUE_FULL = auto()
    QUEUE_TIMEOUT = auto()
    UNLOADED = auto()  # a person unloaded the model while this one waited for its load
    SHUTTING_DOWN = auto()


@dataclass(frozen=True, slots=True)
class Exit:
    """How a child ended. `code` is None when a signal ended it, and the reverse."""

    code: int | None = None
    signal: int | None = None
    out_of_memory: bool = False
    words: str = ""  # its last lines: what a person needs to see


NO_WORD = Exit()
"""Nothing is known of how it ended."""


@dataclass(frozen=True, slots=True)
class PresetSpec:
    """What the core needs to know of a preset.

    `fingerprint` changes when the effective options change: an instance started with another one
    is stale. `parallel` is how many leases an instance takes. Times are seconds.
    """

    name: PresetName
    fingerprint: str = ""
    parallel: int = 1
    pinned: bool = False
    stop_timeout_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a waiter is told instead of a lease."""

    code: Code
    retry_after_seconds: float | None = None
    exit: Exit | None = None
    blocked_by: tuple[PresetName, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """Limits of the planner; times in seconds. A `models_max` of 0 means no limit by count."""

    models_max: int = 4
    models_max_loading: int = 1
    queue_limit: int = 4096
    queue_wait_seconds: float = 600.0
    load_stall_seconds: float = 300.0
    backoff_first_seconds: float = 1.0
    backoff_longest_seconds: float = 60.0
    out_of_memory_loads: int = 3
