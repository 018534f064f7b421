"""Step by step, what a preset would take with a larger context, or with more layers on devices.
Nothing here changes anything."""

from __future__ import annotations

from dataclasses import dataclass

from .books import Books
from .placing import context_at, fits, need_of, steps
from .sizes import Bytes, DeviceId, Grant, Need, OpenShape, Placement, added, on_each
from .values import PresetName


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is asked about: a shape with many contexts, put where the preset would go, and
    placements with ever more layers on devices, each at the context of the index `at`."""

    shape: OpenShape
    placement: Placement
    layers: tuple[Placement, ...] = ()
    at: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """What it would take `at` so many tokens, or with so many layers on devices. `now`: it fits
    beside all others; `empty`: with all others of ours gone."""

    at: int
    need: Need
    now: bool
    empty: bool


@dataclass(frozen=True, slots=True)
class DeviceRoom:
    """Bytes of a device: all of it, and what may be taken `now`, and with all of ours gone."""

    device: DeviceId
    total: int
    now: int
    empty: int


@dataclass(frozen=True, slots=True)
class Ladders:
    contexts: tuple[Step, ...]
    layers: tuple[Step, ...]
    rooms: tuple[DeviceRoom, ...]


def ladders(books: Books, preset: PresetName, wishes: Wishes, known: Grant | None) -> Ladders:
    """With its own instances counted as gone, and shifted so that it agrees with what is `known`
    of it at one context."""
    own = {instance.id for instance in books.fleet.of(preset)}
    ledger = books.ledger
    now, empty = ledger.free(own, returned=True), ledger.roomy(())
    over = _beyond(wishes, known)

    def step(at: int, placement: Placement, index: int) -> Step:
        need = _shifted(need_of(wishes.shape, placement, index), over)
        return Step(at, need, fits(need, *now), fits(need, *empty))

    shape = wishes.shape
    return Ladders(
        tuple(
            step(context_at(shape, index), wishes.placement, index) for index in range(steps(shape))
        ),
        tuple(
            step(sum(count for _, count in each.layers), each, wishes.at) for each in wishes.layers
        ),
        tuple(
            DeviceRoom(name, device.reading.total, max(0, now[0][name]), max(0, empty[0][name]))
            for name, device in ledger.devices.items()
        ),
    )


def _beyond(wishes: Wishes, known: Grant | None) -> Bytes:
    """By how much more is known to be taken of each device than the shape says."""
    if known is None or known.context not in wishes.shape.contexts:
        return ()
    index = wishes.shape.contexts.index(known.context)
    said = on_each(need_of(wishes.shape, wishes.placement, index))
    return tuple(
        (device, size - said.get(device, 0)) for device, size in on_each(known.need).items()
    )


def _shifted(need: Need, over: Bytes) -> Need:
    takes = on_each(need)
    own = added(need.own, tuple(each for each in over if each[0] in takes))
    return Need(tuple((device, max(0, size)) for device, size in own), need.mapped)
