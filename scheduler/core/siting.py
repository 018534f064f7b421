"""Where a preset may go, and what it is granted there (L2, L6, L9).

An entry that waits for a start has `sites`: the equally good places of the best kind that the
machine could give it with everything unpinned gone, each with what its smallest context takes. It
waits, evicts and drains for one of them, and for none that is worse; unless its preset says that it
takes what there is (`placement_now`). The grant, at the start, is the largest context that fits
there without anybody more having to go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from .books import Books
from .instances import Instance
from .ledger import NOBODY
from .placing import (
    clipped,
    context_at,
    largest,
    less,
    missing,
    need_of,
    steps,
    surplus_on,
    tiers,
    with_surplus,
)
from .sizes import (
    FIXED,
    NO_NEED,
    NOTHING_GRANTED,
    ON_HOST,
    Bytes,
    DeviceId,
    FileId,
    FixedShape,
    Grant,
    Kind,
    Need,
    OpenShape,
    Placement,
    Shape,
    loaded,
    on_each,
)
from .values import Code, InstanceId, PresetName, PresetSpec
from .wait_queue import ANYWHERE, Entry, Site

_Room = tuple[dict[DeviceId, int], dict[FileId, int]]


@dataclass(frozen=True, slots=True)
class NoPlace:
    """Why there is none at all: what is missing, and whose fault it is."""

    code: Code
    short: Bytes = ()
    blocked_by: tuple[PresetName, ...] = ()
    apart: bool = False


_State = tuple[int, tuple[InstanceId, ...], Bytes | None]
"""What a look rests on: the ledger, who is pinned, what the preset took beyond its grant."""


class Siting:
    def __init__(self, books: Books) -> None:
        self._guessed = books.guessed
        self._presets = books.presets
        self._fleet = books.fleet
        self._ledger = books.ledger
        self._surplus = books.surplus
        self._failures = books.failures
        self._known: dict[PresetName, tuple[_State, PresetSpec, tuple[Site, ...] | NoPlace]] = {}
        self._measure_wait_seconds = books.config.measure_wait_seconds

    # The places of an entry ---------------------------------------------------------

    def settle(
        self, entry: Entry, spec: PresetSpec, *, gone: Collection[InstanceId] = NOBODY
    ) -> NoPlace | None:
        """Finds its sites anew; None when it has some. While room is made for one it stays with
        it, as long as that is still among them. `gone` count as if they had exited."""
        shape = spec.shape
        if shape is None or not self._ledger.limits:
            entry.sites, entry.site = (ANYWHERE,), ANYWHERE
            return None
        # It was tried with all there was; with more than that by now it is worth another try.
        too_large = self._failures.too_large(entry.preset)
        if too_large and (short := self._short(spec, shape, self._empty())):
            return NoPlace(Code.MODEL_TOO_LARGE, short)
        found = self._look(spec, shape, gone) if gone else self._remembered(spec, shape)
        if isinstance(found, NoPlace):
            return found
        entry.sites = sites = found
        kept = [site for site in sites if entry.site and site.placement == entry.site.placement]
        entry.site = kept[0] if kept and entry.room else sites[0]
        return None

    def _remembered(self, spec: PresetSpec, shape: Shape) -> tuple[Site, ...] | NoPlace:
        """As it was found before, while nothing is otherwise that it rests on."""
        pinned = tuple(instance.id for instance in self._pinned())
        state = self._ledger.version, pinned, self._surplus.get(spec.name)
        known = self._known.get(spec.name)
        if known is not None and known[0] == state and known[1] is spec:
            return known[2]
        if len(self._known) > 2 * len(self._presets):
            self._known.clear()
        found = self._look(spec, shape, NOBODY)
        self._known[spec.name] = state, spec, found
        return found

    def _look(
        self, spec: PresetSpec, shape: Shape, gone: Collection[InstanceId]
    ) -> tuple[Site, ...] | NoPlace:
        pinned = self._pinned(gone)
        roomy = self._ledger.roomy([i.id for i in pinned])
        sites = self._best(spec, shape, self._ledger.free(gone), roomy)
        return sites or self._alone(spec, shape, pinned) or self._whose_fault(spec, shape, pinned)

    def worse(self, entry: Entry, spec: PresetSpec) -> Iterator[Site]:
        """Those of worse kinds, the best first, for a preset that takes what there is now."""
        if spec.shape is None or not spec.placement_now:
            return
        best = {site.placement for site in entry.sites}
        roomy = self._ledger.roomy([i.id for i in self._pinned()])
        for sites in self._kinds(spec, spec.shape, self._ledger.free(), roomy):
            yield from (site for site in sites if site.placement not in best)

    def _best(self, spec: PresetSpec, shape: Shape, free: _Room, roomy: _Room) -> tuple[Site, ...]:
        return next(self._kinds(spec, shape, free, roomy), ())

    def _kinds(
        self, spec: PresetSpec, shape: Shape, free: _Room, roomy: _Room
    ) -> Iterator[tuple[Site, ...]]:
        """Of each kind, the best first, the sites that there would be."""
        shape = self._on_known_devices(shape)
        surplus = self._surplus.get(spec.name, ())
        rooms = less(free[0], surplus), less(roomy[0], surplus)
        kinds = tiers(shape, *rooms, mapped=free[1], mapped_roomy=roomy[1])
        for tier in kinds:
            found = [self._site(spec, shape, placement) for placement in tier.placements]
            if sites := tuple(site for site in found if not missing(site.need, *roomy)):
                yield sites

    def _on_known_devices(self, shape: Shape) -> Shape:
        """A device that is away is no place, whatever was there when the preset was measured."""
        if isinstance(shape, FixedShape):
            return shape
        known = tuple(device for device in shape.devices if device in self._ledger.devices)
        return shape if known == shape.devices else replace(shape, devices=known)

    def _alone(
        self, spec: PresetSpec, shape: Shape, pinned: Collection[Instance]
    ) -> tuple[Site, ...] | NoPlace:
        """L6: what is too large by a guess only is tried once, with all of its devices; when nobody
        else uses them."""
        if not _may_be_tried_alone(spec, shape) or self._holding(pinned):
            return ()
        if self._has_a_site(spec, shape, self._empty()):
            return ()
        need = clipped(need_of(shape, FIXED, 0), self._ledger.empty())
        if short := missing(need, *self._ledger.roomy(())):
            return NoPlace(Code.MEMORY_IN_USE, short)
        return (Site(FIXED, need, alone=True),)

    def _whose_fault(self, spec: PresetSpec, shape: Shape, pinned: Collection[Instance]) -> NoPlace:
        names = self._holding(pinned)
        if not self._has_a_site(spec, shape, self._empty()):
            if names and _may_be_tried_alone(spec, shape):
                return NoPlace(Code.BLOCKED_BY_PINNED, blocked_by=names)
            return NoPlace(Code.MODEL_TOO_LARGE, self._short(spec, shape, self._empty()))
        roomy = self._ledger.roomy([i.id for i in pinned])
        if names and self._has_a_site(spec, shape, self._ledger.roomy(())):
            return NoPlace(Code.BLOCKED_BY_PINNED, self._short(spec, shape, roomy), names)
        return NoPlace(Code.MEMORY_IN_USE, self._short(spec, shape, roomy))

    def _holding(self, pinned: Collection[Instance]) -> tuple[PresetName, ...]:
        """Those that hold any memory."""
        holding = [i for i in pinned if self._ledger.held.get(i.id)]
        return tuple(sorted(instance.preset.name for instance in holding))

    def _empty(self) -> _Room:
        return dict(self._ledger.empty()), {}

    def _has_a_site(self, spec: PresetSpec, shape: Shape, room: _Room) -> bool:
        return any(self._kinds(spec, shape, room, room))

    def _short(self, spec: PresetSpec, shape: Shape, room: _Room) -> Bytes:
        """By how much it is too large for this, wherever least is missing."""
        shape = self._on_known_devices(shape)
        placements = [FIXED]
        if isinstance(shape, OpenShape):
            whole = (Placement(Kind.WHOLE, ((d, len(shape.layers)),)) for d in shape.devices)
            placements = [ON_HOST, *whole]
        lacks = (missing(self._site(spec, shape, each).need, *room) for each in placements)
        return min(lacks, key=lambda lack: sum(size for _, size in lack))

    def _site(self, spec: PresetSpec, shape: Shape, placement: Placement) -> Site:
        return Site(placement, self._need(spec, shape, placement, 0))

    def _need(self, spec: PresetSpec, shape: Shape, placement: Placement, step: int) -> Need:
        """With what an earlier instance took beyond its grant, on the devices of this one."""
        need = need_of(shape, placement, step)
        return with_surplus(need, self._surplus.get(spec.name, ()))

    def _pinned(self, gone: Collection[InstanceId] = NOBODY) -> list[Instance]:
        return [i for i in self._fleet.pinned.values() if not i.leaving and i.id not in gone]

    def figures_due(self, entry: Entry, since: float | None = None) -> float:
        """L5: until when it waits for its measurement, once; later a guess is good enough. `since`:
        when it was due before anybody asked for it."""
        waits = (
            self._ledger.limits
            and self._presets[entry.preset].measuring
            and entry.preset not in self._guessed
        )
        begun = entry.since if since is None else min(entry.since, since)
        return begun + self._measure_wait_seconds if waits else 0.0

    # The grant ------------------------------------------------------------------------

    def grant(
        self,
        entry: Entry,
        spec: PresetSpec,
        promised: Iterable[Need] = (),
        later: Iterable[Entry] = (),
        *,
        gone: Collection[InstanceId] = NOBODY,
    ) -> tuple[Grant, int]:
        """L2: what it is started with, and which of its contexts that is: the largest that fits now
        beside what is promised, and beside the smallest of each entry that waits, as far as these
        still fit beside its own smallest."""
        site = entry.site
        if spec.shape is None or site is None or site is ANYWHERE:
            return NOTHING_GRANTED, 0
        if site.alone:
            return Grant(site.placement, context_at(spec.shape, 0), site.need), 0
        beside = [*promised]
        for other in later:
            need = self._smallest(other)
            if need and not self._ledger.deficit(site.need, gone, [*beside, need]):
                beside.append(need)
        free, files = self._ledger.free(gone, beside)
        surplus = self._surplus.get(spec.name, ())
        most = self._failures.most_step(spec.name, steps(spec.shape) - 1)
        step = largest(spec.shape, site.placement, free, files, most=most, surplus=surplus)
        need = self._need(spec, spec.shape, site.placement, step)
        context = context_at(spec.shape, step)
        return Grant(site.placement, context, need, surplus_on(need, surplus)), step

    def _smallest(self, entry: Entry) -> Need:
        spec = self._presets.get(entry.preset)
        if spec is None or spec.shape is None:
            return NO_NEED
        if entry.site is None:
            self.settle(entry, spec)
        return NO_NEED if entry.site is None else entry.site.need

    # A sleeper, in its place ------------------------------------------------------------

    def wakes_in_place(self, sleeper: Instance) -> bool:
        """L8: whether what it takes awake fits where it is, with everything unpinned gone."""
        staying: list[InstanceId] = [i.id for i in self._pinned() if i is not sleeper]
        return not missing(sleeper.takes, *self._ledger.roomy(staying))


def _may_be_tried_alone(spec: PresetSpec, shape: Shape) -> bool:
    """L6: that it is too large is a guess, and there is nothing to choose."""
    return spec.estimated and isinstance(shape, FixedShape)


def surplus_after(before: Bytes, grant: Grant, allocated: Need) -> Bytes:
    """L2: by how much instances of a preset took more on each device than its figures say, at the
    most so far."""
    over = on_each(allocated)
    for device, size in on_each(loaded(grant.need)).items():
        over[device] = over.get(device, 0) - size
    for device, size in grant.surplus:
        over[device] = over.get(device, 0) + size
    most = dict(before)
    for device, size in over.items():
        most[device] = max(size, most.get(device, 0))
    return tuple((device, size) for device, size in most.items() if size > 0)
