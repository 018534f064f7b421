"""Messages of those who manage, measure and watch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from scheduler.memory_states import PlacementWish

from .base import AllowedLists, OperationBase, RequestText

LAST_SHOWN = 10_000
"""How far into a preset's waiters people may look: each look costs the scheduler a moment."""
DEVICE_NAME = r"^[A-Za-z][A-Za-z0-9_.:+-]{0,63}\Z"
DeviceName = Annotated[str, msgspec.Meta(pattern=DEVICE_NAME)]
DeviceBytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
"""A pebibyte on one device is nonsense."""

Layers = Annotated[
    dict[DeviceName, Annotated[int, msgspec.Meta(ge=0, le=2048)]], msgspec.Meta(max_length=64)
]


class Load(OperationBase, tag="load", frozen=True):
    """A person's load. Replies when queued, or with `wait` when loaded (or failed). `allowed` is as
    in an acquire."""

    preset: str
    wait: bool = False
    allowed: AllowedLists = ()


class Unload(OperationBase, tag="unload", frozen=True):
    preset: str
    force: bool = False
    allowed: AllowedLists = ()


class Apply(OperationBase, tag="apply", frozen=True):
    """A stale instance of `preset` drains now, not when it is idle."""

    preset: str


class Reload(OperationBase, tag="reload", frozen=True):
    """The registry has changed; `revision` is its new number."""

    revision: int = 0


class Measured(OperationBase, tag="measured", frozen=True):
    """The measure job found what an instance takes on each device. `fingerprint` is the preset's
    memory fingerprint: figures of options that the preset no longer has are not shown."""

    preset: str
    fingerprint: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    devices: Annotated[dict[DeviceName, DeviceBytes], msgspec.Meta(min_length=1, max_length=64)]


class Snapshot(OperationBase, tag="snapshot", frozen=True):
    pass


class Devices(OperationBase, tag="devices", frozen=True):
    """What each device has, and who holds how much of it."""


class Ladder(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An open `shape` with many contexts, of which `context` is the preset's own (0: the one that
    it would get). `said` are the layers on each device by its options, null where they are the
    ledger's to choose; `layers` are further such divisions to look at."""

    shape: dict[str, Any]
    context: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 0
    said: Layers | None = None
    layers: Annotated[list[Layers], msgspec.Meta(max_length=64)] = []


class Fit(OperationBase, tag="fit", frozen=True):
    """Where `preset` would go now, and on an empty machine; nothing is changed. With `shape` (what
    it takes, as scheduler/measuring/shapes.py writes it) the answer is for that, with `placement`
    and `estimated` as given; without it for the preset as it is saved, with what is known of it.
    With a `ladder` it also says, step by step, what it would take otherwise."""

    preset: str
    shape: dict[str, Any] | None = None
    placement: PlacementWish = "best"
    estimated: bool = False
    ladder: Ladder | None = None


class Waiters(OperationBase, tag="waiters", frozen=True):
    """One page of those who wait for `preset`, from among the first LAST_SHOWN of them."""

    preset: str
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50
    offset: Annotated[int, msgspec.Meta(ge=0, le=LAST_SHOWN)] = 0


class Explain(OperationBase, tag="explain", frozen=True):
    """Where a request stands, and why: by its `request` text, or by `target`, the id of an acquire
    or load on this connection. Of several with one text it is the latest."""

    request: RequestText = ""
    target: int | None = None


class Subscribe(OperationBase, tag="subscribe", frozen=True):
    """Every change of a preset's state from now on, each as a reply with this id (Happened); the
    first one holds nothing but the number of the last change before. A `cancel` of it ends it."""


class Ping(OperationBase, tag="ping", frozen=True):
    """Whether the scheduler decides anything at this moment. With `process` it is that process's
    sign of life as well."""

    process: Literal["", "jobs"] = ""


class Shutdown(OperationBase, tag="shutdown", frozen=True):
    """Refuse waiters, start nothing more; leases run on. Sent by `serve` before it stops."""
