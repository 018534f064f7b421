"""What the core is told: things that have happened."""

from __future__ import annotations

from dataclasses import dataclass

from .sizes import DeviceReading, Need
from .values import (
    NO_TENANT,
    NO_WORD,
    Exit,
    InstanceId,
    Kind,
    PresetName,
    PresetSpec,
    Priority,
    RequestId,
    TenantId,
)


@dataclass(frozen=True, slots=True)
class Requested:
    """Someone wants a lease. `arrived` is when the request first arrived (monotonic seconds):
    a retry keeps the place of its first arrival. `weight` and `priority` are the tenant's. Those of
    one `sticky` come to the same one of several instances, as long as it has a free slot."""

    request: RequestId
    preset: PresetName
    arrived: float
    kind: Kind = Kind.POST
    tenant: TenantId = NO_TENANT
    weight: float = 1.0
    priority: Priority = Priority.NORMAL
    sticky: str = ""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A waiter left before it was answered. Harmless when it was answered meanwhile:
    a lease that was granted in that very moment ends with it."""

    request: RequestId


@dataclass(frozen=True, slots=True)
class Detached:
    """A waiter's client has lost its connection, and may come back for the answer: it starts no
    drain any more, and waits for `detached_wait_seconds` at most (A9)."""

    request: RequestId


@dataclass(frozen=True, slots=True)
class Released:
    """The lease is over and its slot is idle. Harmless when the lease has ended already. `tokens`
    were computed for it (read, less those from the cache, and answered); None: nobody counted."""

    request: RequestId
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The client has left, the child works on: counted until Released or until SlotsSeen."""

    request: RequestId


@dataclass(frozen=True, slots=True)
class RemoteHeard:
    """What runs elsewhere began to answer the request, or failed it: `failed` says how, in words
    that hold nothing of a client's."""

    request: RequestId
    failed: str = ""


@dataclass(frozen=True, slots=True)
class SlotsSeen:
    """A reading of the child's /slots: abandoned leases beyond `busy` have ended."""

    instance: InstanceId
    busy: int


@dataclass(frozen=True, slots=True)
class StreamsHeld:
    """Whether the child holds streams that have ended and that nobody has read to their end."""

    instance: InstanceId
    unread: bool


@dataclass(frozen=True, slots=True)
class LoadingReported:
    """The child reads its weights: after its start, or after a wake. `progress` is from 0 to 1;
    only when it has grown does the load count as one that gets on."""

    instance: InstanceId
    progress: float | None = None


@dataclass(frozen=True, slots=True)
class ReadyReported:
    instance: InstanceId


@dataclass(frozen=True, slots=True)
class AllocationReported:
    """What the child says that it has allocated: held from now on, instead of its grant."""

    instance: InstanceId
    need: Need


@dataclass(frozen=True, slots=True)
class SleepingReported:
    instance: InstanceId


@dataclass(frozen=True, slots=True)
class Silent:
    """The child has not answered to `/health` for too long, although it should."""

    instance: InstanceId


@dataclass(frozen=True, slots=True)
class Exited:
    """The child has been reaped (or could not be spawned)."""

    instance: InstanceId
    exit: Exit = NO_WORD


@dataclass(frozen=True, slots=True)
class PresetsChanged:
    """The whole registry as it now is; what is missing from it was deleted. `renamed` are old names
    that now lead to another preset (old, new): who waits for the old one waits for that."""

    presets: tuple[PresetSpec, ...]
    renamed: tuple[tuple[PresetName, PresetName], ...] = ()


@dataclass(frozen=True, slots=True)
class DevicesRead:
    """What the devices have at this moment. One that is not in it limits nothing."""

    devices: tuple[DeviceReading, ...]


@dataclass(frozen=True, slots=True)
class UnloadAsked:
    """A person wants every instance of the preset gone: after its leases, or now with `force`."""

    preset: PresetName
    force: bool = False


@dataclass(frozen=True, slots=True)
class ApplyAsked:
    """A person wants the preset's edited options now: its stale instance takes no new lease."""

    preset: PresetName


@dataclass(frozen=True, slots=True)
class KeepWished:
    """A tenant that has used the preset's instances wishes them kept, once idle, for so many
    seconds: below 0 as long as possible. It has no say in those that it has not used (V5)."""

    preset: PresetName
    tenant: TenantId
    seconds: float


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """No start any more, waiters are refused; leases run on until they are released."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time passed. At least once a second, so that a lost event heals."""


Event = (
    Requested
    | Cancelled
    | Detached
    | Released
    | Abandoned
    | RemoteHeard
    | SlotsSeen
    | StreamsHeld
    | LoadingReported
    | ReadyReported
    | AllocationReported
    | SleepingReported
    | Silent
    | Exited
    | PresetsChanged
    | DevicesRead
    | UnloadAsked
    | ApplyAsked
    | KeepWished
    | ShutdownAsked
    | Ticked
)
