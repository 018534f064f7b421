"""The nouns of scheduling, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum, auto
from typing import NewType

from .sharing import NO_GROUP, Sharing
from .sizes import Bytes, FixedShape, OpenShape, Shape

PresetName = NewType("PresetName", str)
TenantId = NewType("TenantId", str)
NO_TENANT = TenantId("")
InstanceId = NewType("InstanceId", int)
RequestId = NewType("RequestId", int)
"""One request from its arrival to its end: as a waiter first, then as the lease it was granted."""


class Kind(StrEnum):
    """What asks for a model."""

    POST = auto()  # a request with a body: counts as use
    GET = auto()  # a look: no slot, no use, ten seconds at most; loads only what fits at once (A8)
    WEBSOCKET = auto()  # counts as use at its start
    LOAD = auto()  # a person's load request: a waiter without a request behind it (A10)
    STARTUP = auto()  # load-on-startup: never evicts, is skipped when it does not fit (A10)


class Priority(IntEnum):
    """A class of requests. A higher one counts as arrived earlier, within a bound (A1)."""

    LOW = 0
    NORMAL = 1
    HIGH = 2


class VictimPolicy(StrEnum):
    """Who goes (V2, V3): who was used the longest ago, or who costs least: is wanted again the
    latest, and where memory is short loads again soonest for the bytes it frees."""

    LRU = auto()
    COST = auto()


class Code(StrEnum):
    """Why the core refuses. The wire's statuses and texts stand in scheduler/protocol.py."""

    MODEL_NOT_FOUND = auto()
    MODEL_REMOVED = auto()
    MODEL_LOAD_FAILED = auto()  # the child died while loading; `exit` says how
    MODEL_BACKING_OFF = auto()  # it failed a moment ago; nothing is evicted for it meanwhile (A4)
    MODEL_BROKEN = auto()  # its last load failed, and another try would evict someone (A4)
    OUT_OF_MEMORY = auto()  # three loads in a row ran out of memory (A4)
    BLOCKED_BY_PINNED = auto()  # only pinned instances stand in the way, and they stay
    MEMORY_IN_USE = auto()  # what others than Corral use stood in the way for too long
    DOES_NOT_FIT = auto()  # a start-up load that would have to evict
    MODEL_TOO_LARGE = auto()  # it would not fit on an empty machine; `short` says by how much
    MODEL_NOT_LOADED = auto()  # a look, and the model is not there to be looked at
    QUEUE_FULL = auto()
    MODEL_QUEUE_FULL = auto()  # too many wait for this preset
    TENANT_QUEUE_FULL = auto()  # too many of this tenant wait
    QUEUE_TIMEOUT = auto()
    UNLOADED = auto()  # a person unloaded the model while this one waited for its load
    SHUTTING_DOWN = auto()
    UPSTREAM_UNAVAILABLE = auto()  # a remote failed again and again, and is left alone for now


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
    is stale. `parallel` is how many slots an instance has. Times are seconds; None is the
    planner's own (Config).
    """

    name: PresetName
    fingerprint: str = ""
    parallel: int = 1
    pinned: bool = False
    stop_timeout_seconds: float = 10.0
    priority: Priority = Priority.NORMAL
    max_wait_seconds: float | None = None  # as the head, until a busy model drains for it (A6)
    min_residency_seconds: float | None = None  # loaded at least so long before it makes way
    keep_alive_seconds: float | None = None  # idle for so long, it ends (V5)
    queue_limit: int | None = None  # waiters for it at once (A7)
    load_seconds: float | None = None  # how long it took to load, as the record knows
    fixed: FixedShape | None = None  # what it takes where its options put it
    open: OpenShape | None = None  # or what it takes wherever the ledger puts it
    surplus: Bytes = ()  # what instances of earlier lives took beyond that
    estimated: bool = False  # that is a guess by the file's header
    measuring: bool = False  # a measurement is on its way, and is worth waiting for (L5)
    placement_now: bool = False  # it takes the best place there is, not the best there could be
    replicas: int = 1  # as many instances at once, at most
    sharing: Sharing = NO_GROUP  # beside whom it may be loaded
    remote: bool = False  # it runs elsewhere: nothing is loaded for it, and it takes no room here

    @property
    def shape(self) -> Shape | None:
        """None: nobody counts what it takes."""
        return self.fixed or self.open


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a waiter is told instead of a lease."""

    code: Code
    retry_after_seconds: float | None = None
    exit: Exit | None = None
    blocked_by: tuple[PresetName, ...] = ()
    apart: bool = False  # a group keeps it and those apart
    short: Bytes = ()
    granted: Bytes = ()  # what its last load might take


@dataclass(frozen=True, slots=True)
class Config:
    """Limits of the planner; times in seconds. A `models_max` of 0 means no limit by count, a
    queue limit of 0 for a preset or a tenant none, a `keep_alive_seconds` of None until the room is
    needed. An instance takes `parallel * oversubscribe` leases."""

    models_max: int = 4
    models_max_loading: int = 1
    queue_limit: int = 4096
    queue_limit_per_preset: int = 0
    queue_limit_per_tenant: int = 1024
    queue_wait_seconds: float = 600.0
    detached_wait_seconds: float = 60.0  # of a waiter whose client has lost its connection
    max_wait_seconds: float = 30.0
    quantum_seconds: float = 30.0
    min_residency_seconds: float = 0.0
    keep_alive_seconds: float | None = None
    oversubscribe: float = 1.0
    max_priority_jump_seconds: float = 30.0
    share_window_seconds: float = 60.0
    look_seconds: float = 10.0
    victim_policy: VictimPolicy = VictimPolicy.COST
    load_stall_seconds: float = 300.0
    backoff_first_seconds: float = 1.0
    backoff_longest_seconds: float = 60.0
    out_of_memory_loads: int = 3
    measure_wait_seconds: float = 10.0
    returning_seconds: float = 5.0
    broken_after: int = 3  # failed loads in a row of what has loaded before
    remote_broken_after: int = 5  # failures in a row of what runs elsewhere
