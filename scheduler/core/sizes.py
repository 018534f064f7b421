"""What a preset takes in memory, wherever it may be put: the values that the ledger counts with.

Bytes throughout. A context is in tokens, over all slots together, as `--ctx-size` has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto
from typing import NewType

DeviceId = NewType("DeviceId", str)
HOST = DeviceId("Host")
Bytes = tuple[tuple[DeviceId, int], ...]
"""Bytes on each device; one that is not in it has none."""
FileId = NewType("FileId", str)
"""A file that is mapped into memory. Whoever maps it shares its pages with the others."""


@dataclass(frozen=True, slots=True)
class Need:
    """`mapped` are bytes of files on the host: held once, however many instances map them, as much
    as the one that maps most of it. `passing` is the part of `own` that is free again once it has
    loaded."""

    own: Bytes = ()
    mapped: tuple[tuple[FileId, int], ...] = ()
    passing: Bytes = ()

    def __bool__(self) -> bool:
        return bool(self.own or self.mapped)


NO_NEED = Need()


def loaded(need: Need) -> Need:
    """What is left of it once it has loaded."""
    if not need.passing:
        return need
    over = dict(need.passing)
    return Need(
        tuple((device, size - over.get(device, 0)) for device, size in need.own), need.mapped
    )


def loading(need: Need, passing: Bytes) -> Need:
    """What has loaded once, when it loads again where it is."""
    return Need(added(need.own, passing), need.mapped, passing) if passing else need


def on_each(need: Need) -> dict[DeviceId, int]:
    """Bytes by device, with what is mapped on the host as if it were its alone."""
    sizes = dict(need.own)
    for _, size in need.mapped:
        sizes[HOST] = sizes.get(HOST, 0) + size
    return sizes


def added(one: Bytes, other: Bytes) -> Bytes:
    """Both together, device by device."""
    if not one or not other:
        return one or other
    sums = dict(one)
    for device, size in other:
        sums[device] = sums.get(device, 0) + size
    return tuple(sums.items())


class Kind(StrEnum):
    """Where a model is put; each is worse than those before it (L9)."""

    FIXED = auto()  # as its options say: there is nothing to choose
    WHOLE = auto()  # on one device
    SPREAD = auto()  # over several devices
    PARTIAL = auto()  # some layers on devices, the rest on the host
    HOST = auto()  # no layer on any device


@dataclass(frozen=True, slots=True)
class Placement:
    """`layers` are how many layers each device has, in the engine's order; the output layer counts
    as one. What is left is the host's. Empty for FIXED and HOST."""

    kind: Kind
    layers: tuple[tuple[DeviceId, int], ...] = ()


FIXED = Placement(Kind.FIXED)
ON_HOST = Placement(Kind.HOST)


@dataclass(frozen=True, slots=True)
class Grant:
    """What an instance is started with, and holds from then on. `context` 0: as its options say.
    `surplus` is the part of `need` that earlier instances took beyond their figures."""

    placement: Placement = FIXED
    context: int = 0
    need: Need = NO_NEED
    surplus: Bytes = ()


NOTHING_GRANTED = Grant()


@dataclass(frozen=True, slots=True)
class Layer:
    """`cache` is what its part of the context takes, at each of the shape's contexts; `largest` is
    the largest of its tensors."""

    weights: int
    cache: tuple[int, ...]
    largest: int = 0


@dataclass(frozen=True, slots=True)
class OpenShape:
    """A model whose placement is the ledger's to choose: what its parts take.

    `layers` are the blocks in their order, and last the output layer. With `n` layers on devices,
    counted from the last, the host maps `mapped[n]` bytes of `file` (`file` empty: it holds them
    itself). Per context, the smallest first: `device_compute` on each device that has a layer,
    `host_compute[0]` on the host while no layer is computed there, `host_compute[1]` else;
    `first_device_fixed` on the first of those devices besides (a projector, a draft model; on the
    host when no device has a layer; empty: nothing). Where it is spread, the engine pipelines:
    `spread_compute` is what each device takes then, and what the host does, instead of
    `device_compute` and `host_compute[0]` (empty: the same as these). `host_fixed` is the host's
    in any case (the process, a prompt cache), `device_fixed` on every device that has a layer (the
    driver's context). The devices in `receiving` hold each tensor twice while they take it in:
    servers, over a connection. `measured` are placements that were measured as they are, one need
    per context: they count instead of the sum.
    """

    contexts: tuple[int, ...]
    layers: tuple[Layer, ...]
    devices: tuple[DeviceId, ...]
    file: FileId
    mapped: tuple[int, ...]
    device_compute: tuple[int, ...]
    host_compute: tuple[tuple[int, ...], tuple[int, ...]]
    host_fixed: int = 0
    device_fixed: int = 0
    first_device_fixed: tuple[int, ...] = ()
    spread_compute: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    receiving: tuple[DeviceId, ...] = ()
    measured: tuple[tuple[Placement, tuple[Need, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class FixedShape:
    """A preset whose options say where it goes: what it takes at each context, the smallest first.
    A context of 0 is one that its options say."""

    sizes: tuple[tuple[int, Need], ...]


Shape = OpenShape | FixedShape


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """A device at one moment. `foreign` is what processes that are not ours use, where the driver
    tells (None: it does not). `budget` caps what Corral may use of it, None: nothing does. `margin`
    stays free. `exclusive`: it serves one process at a time, as an RPC server does. `stale`:
    these are figures of an earlier moment, from which nothing new may be concluded."""

    device: DeviceId
    total: int
    free: int
    foreign: int | None = None
    budget: int | None = None
    margin: int = 0
    exclusive: bool = False
    stale: bool = False
