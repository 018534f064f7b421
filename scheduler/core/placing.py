"""Where a model may be put, best first (L9), what it takes there, and whether that fits (L1, L2).

Bytes throughout. A step is the index of one of a shape's contexts, 0 the smallest. `free` is what
may be taken of each device, `mapped` what others hold of each file already.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from types import MappingProxyType

from .dividing import Copies, divide, most_layers, sets_of_devices
from .sizes import (
    FIXED,
    HOST,
    ON_HOST,
    Bytes,
    DeviceId,
    FileId,
    FixedShape,
    Kind,
    Need,
    OpenShape,
    Placement,
    Shape,
    added,
)

Free = Mapping[DeviceId, int]
"""A device that is not in it limits nothing."""
Mapped = Mapping[FileId, int]
NOTHING_MAPPED: Mapped = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Tier:
    """Placements that are equally good."""

    kind: Kind
    placements: tuple[Placement, ...]


def steps(shape: Shape) -> int:
    """How many contexts there are to choose from."""
    return len(shape.sizes) if isinstance(shape, FixedShape) else len(shape.contexts)


def context_at(shape: Shape, step: int) -> int:
    """Tokens; 0: as the preset's options say."""
    return shape.sizes[step][0] if isinstance(shape, FixedShape) else shape.contexts[step]


def need_of(shape: Shape, placement: Placement, step: int) -> Need:
    """What the placement takes. A FixedShape's need is the same wherever it is put."""
    if isinstance(shape, FixedShape):
        return shape.sizes[step][1]
    return _AtStep.of(shape, step).need(placement)


def tiers(
    shape: Shape,
    free: Free,
    roomy: Free,
    *,
    mapped: Mapped = NOTHING_MAPPED,
    mapped_roomy: Mapped = NOTHING_MAPPED,
) -> Iterator[Tier]:
    """L9, best first, at the smallest context: only placements that fit `free`, what is to be had
    now, or `roomy`, what would be with every unpinned instance gone. Nothing: it fits neither."""
    rooms = [(free, mapped)]
    if (roomy, mapped_roomy) != (free, mapped):
        rooms.append((roomy, mapped_roomy))
    if isinstance(shape, FixedShape):
        if any(fits(need_of(shape, FIXED, 0), *room) for room in rooms):
            yield Tier(Kind.FIXED, (FIXED,))
        return
    at = _AtStep.of(shape, 0)
    yield from _tier(Kind.WHOLE, _whole(at, rooms))
    sides = [_Side.of(at, Kind.SPREAD, *room) for room in rooms]
    yield from _tier(Kind.SPREAD, _divided(sides, len(shape.layers)))
    sides = [_Side.of(at, Kind.PARTIAL, *room) for room in rooms]
    most = max(side.most for side in sides)
    for count in range(min(most, len(shape.layers) - 1), 0, -1):
        yield from _tier(Kind.PARTIAL, _divided(sides, count))
    on_host = at.need(ON_HOST)
    yield from _tier(Kind.HOST, [ON_HOST] if any(fits(on_host, *room) for room in rooms) else [])


def fits(need: Need, free: Free, mapped: Mapped = NOTHING_MAPPED) -> bool:
    return all(size <= free.get(device, size) for device, size in _taken(need, mapped))


def missing(need: Need, free: Free, mapped: Mapped = NOTHING_MAPPED) -> Bytes:
    """By how much it does not fit; empty when it does."""
    return tuple(
        (device, size - free[device])
        for device, size in _taken(need, mapped)
        if device in free and size > free[device]
    )


def less(free: Free, taken: Bytes) -> Free:
    """What of this is left."""
    if not taken:
        return free
    gone = dict(taken)
    return {device: size - gone.get(device, 0) for device, size in free.items()}


def surplus_on(need: Need, surplus: Bytes) -> Bytes:
    """L2: of what a preset took beyond its figures, what counts where this is."""
    own = dict(need.own)
    return tuple((device, size) for device, size in surplus if device in own or device == HOST)


def with_surplus(need: Need, surplus: Bytes) -> Need:
    return replace(need, own=added(need.own, surplus_on(need, surplus))) if surplus else need


def largest(
    shape: Shape,
    placement: Placement,
    free: Free,
    mapped: Mapped = NOTHING_MAPPED,
    *,
    most: int | None = None,
    surplus: Bytes = (),
) -> int:
    """L2: the step of the largest context that fits, `most` at most; 0 also when none does."""
    for step in range(steps(shape) - 1 if most is None else most, 0, -1):
        if fits(with_surplus(need_of(shape, placement, step), surplus), free, mapped):
            return step
    return 0


def second_copy(largest: int, besides: int) -> int:
    """What a receiving device takes of a model while it loads, beyond its weights and what is
    `besides`: caches are made when all weights are there, so that the copy of a tensor takes their
    place."""
    return max(0, largest - besides)


def clipped(need: Need, most: Free) -> Need:
    """L6: no more than `most` of any device, so that an estimate that is too large for the empty
    machine takes all of it. On the host, mapped bytes are cut before its own."""
    own = tuple((device, min(size, most.get(device, size))) for device, size in need.own)
    files = need.mapped
    if HOST in most:
        left = most[HOST] - sum(size for device, size in own if device == HOST)
        cut = []
        for file, size in files:
            cut.append((file, max(0, min(size, left))))
            left -= cut[-1][1]
        files = tuple(cut)
    return Need(
        tuple((device, size) for device, size in own if size > 0),
        tuple((file, size) for file, size in files if size),
    )


def _taken(need: Need, mapped: Mapped) -> Bytes:
    """What it takes of each device; of a file only what is not mapped yet."""
    more = sum(max(0, size - mapped.get(file, 0)) for file, size in need.mapped)
    if not more:
        return need.own
    own = dict(need.own)
    own[HOST] = own.get(HOST, 0) + more
    return tuple(own.items())


# What a model takes -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _AtStep:
    """A shape at one of its contexts. `ends[i]` is what its first `i` layers take on a device,
    `weights[i]` what they weigh, `caches[i]` what they take on the host beside the file."""

    shape: OpenShape
    step: int
    ends: list[int]
    weights: list[int]
    caches: list[int]

    @classmethod
    def of(cls, shape: OpenShape, step: int) -> _AtStep:
        ends = accumulate((layer.weights + layer.cache[step] for layer in shape.layers), initial=0)
        weights = accumulate((layer.weights for layer in shape.layers), initial=0)
        caches = accumulate((layer.cache[step] for layer in shape.layers), initial=0)
        return cls(shape, step, list(ends), list(weights), list(caches))

    def per_device(self, kind: Kind) -> int:
        """On each device that has a layer, beside its layers."""
        spread = self.shape.spread_compute[0] if kind is Kind.SPREAD else ()
        return (spread or self.shape.device_compute)[self.step] + self.shape.device_fixed

    @property
    def on_first(self) -> int:
        """On the first of them besides."""
        fixed = self.shape.first_device_fixed
        return fixed[self.step] if fixed else 0

    def need(self, placement: Placement) -> Need:
        """As it was measured, else the sum of its parts."""
        for measured, needs in self.shape.measured:
            if measured == placement:
                return needs[self.step]
        layers = [(device, count) for device, count in placement.layers if count]
        on_devices = sum(count for _, count in layers)
        own: list[tuple[DeviceId, int]] = []
        passes: list[tuple[DeviceId, int]] = []
        begin, besides = len(self.shape.layers) - on_devices, self.on_first
        each = self.per_device(placement.kind)
        for device, count in layers:
            size = self.ends[begin + count] - self.ends[begin] + each + besides
            if device in self.shape.receiving:
                more = self._second_copy(begin, count, size)
                passes += [(device, more)] if more else []
                size += more
            own.append((device, size))
            begin, besides = begin + count, 0
        host, mapped = self.on_host(on_devices, placement.kind)
        own.append((HOST, host))
        return Need(
            tuple((device, size) for device, size in own if size),
            ((self.shape.file, mapped),) if mapped else (),
            tuple(passes),
        )

    def _second_copy(self, begin: int, count: int, size: int) -> int:
        run = self.shape.layers[begin : begin + count]
        weights = sum(layer.weights for layer in run)
        return second_copy(max(layer.largest for layer in run), size - weights)

    def on_host(self, on_devices: int, kind: Kind) -> tuple[int, int]:
        """What the host holds itself, and what it maps, with so many layers on devices."""
        shape = self.shape
        rest = len(shape.layers) - on_devices
        spread = shape.spread_compute[1] if kind is Kind.SPREAD else ()
        compute = spread or shape.host_compute[rest > 0]
        own = shape.host_fixed + compute[self.step] + self.caches[rest]
        if not on_devices:
            own += self.on_first
        mapped = shape.mapped[on_devices]
        return (own, mapped) if shape.file else (own + mapped, 0)


# Where it may be put ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Side:
    """A model that is to be divided, beside what it may take. In the order of its devices:
    `shares` is what is free there, `rooms` how much of that is for layers. `most` layers fit."""

    at: _AtStep
    kind: Kind
    free: Free
    mapped: Mapped
    shares: list[int]
    rooms: list[int]
    most: int

    @classmethod
    def of(cls, at: _AtStep, kind: Kind, free: Free, mapped: Mapped) -> _Side:
        each, besides = at.per_device(kind), at.on_first
        everything = at.ends[-1] + each + besides
        shares = [max(0, free.get(device, everything)) for device in at.shape.devices]
        rooms = [share - each for share in shares]
        return cls(at, kind, free, mapped, shares, rooms, most_layers(at.ends, rooms, besides))

    def has_room(self, placement: Placement) -> bool:
        return fits(self.at.need(placement), self.free, self.mapped)

    def host_has_room(self, on_devices: int) -> bool:
        if HOST not in self.free:
            return True
        own, mapped = self.at.on_host(on_devices, self.kind)
        taken = own + max(0, mapped - self.mapped.get(self.at.shape.file, 0))
        return not taken or taken <= self.free[HOST]

    def divided(self, count: int) -> Placement | None:
        """The last `count` layers on the fewest devices that suffice, those with most free first;
        at least two for a spread. None: they do not fit."""
        if count > self.most or not self.host_has_room(count):
            return None
        start = len(self.at.shape.layers) - count
        fewest = 2 if self.kind is Kind.SPREAD else 1
        for indexes in sets_of_devices(self.shares, fewest):
            placement = self._on(indexes, start)
            if placement is None or len(placement.layers) < fewest:
                continue
            if self.has_room(placement):
                return placement
        return None

    def _on(self, indexes: Sequence[int], start: int) -> Placement | None:
        """On these devices, in proportion to what each has free."""
        devices = [self.at.shape.devices[index] for index in indexes]
        shares = [self.shares[index] for index in indexes]
        first, *others = (self.rooms[index] for index in indexes)
        rooms = [first - self.at.on_first, *others]
        counts = divide(self.at.ends, start, rooms, shares, self._copies(devices))
        if counts is None:
            return None
        runs = zip(devices, counts, strict=True)
        return Placement(self.kind, tuple(run for run in runs if run[1]))

    def _copies(self, devices: list[DeviceId]) -> Copies | None:
        shape = self.at.shape
        if not shape.receiving:
            return None
        limits = [
            self.free.get(device) if device in shape.receiving else None for device in devices
        ]
        return Copies(self.at.weights, [layer.largest for layer in shape.layers], limits)


def _tier(kind: Kind, placements: list[Placement]) -> Iterator[Tier]:
    if placements:
        yield Tier(kind, tuple(placements))


def _whole(at: _AtStep, rooms: list[tuple[Free, Mapped]]) -> list[Placement]:
    """Best fit: least left over on the device first, where it fits now before where it would."""
    found: list[tuple[int, float, int, Placement]] = []
    for index, device in enumerate(at.shape.devices):
        placement = Placement(Kind.WHOLE, ((device, len(at.shape.layers)),))
        need = at.need(placement)
        for rank, (free, mapped) in enumerate(rooms):
            if fits(need, free, mapped):
                left = free.get(device, math.inf) - dict(need.own).get(device, 0)
                found.append((rank, left, index, placement))
                break
    return [placement for *_, placement in sorted(found, key=lambda one: one[:3])]


def _divided(sides: list[_Side], count: int) -> list[Placement]:
    """One made for each side, where it fits at all."""
    made = (side.divided(count) for side in sides)
    return list(dict.fromkeys(placement for placement in made if placement is not None))
