"""What would fit? Where a preset would go, now and on an empty machine, and who would go for it.
Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from .books import Books
from .eviction import Eviction
from .instances import Instance
from .room import Room, Shortage
from .siting import NoPlace, Siting
from .sizes import Bytes, Grant
from .values import InstanceId, PresetName, PresetSpec
from .wait_queue import Entry, Site


@dataclass(frozen=True, slots=True)
class Fit:
    """`grant` is what it would be started with; None: nowhere, and `no_place` says why. `evicts`
    would go for it; `waits`: those that could make way are answering."""

    grant: Grant | None = None
    evicts: tuple[PresetName, ...] = ()
    waits: bool = False
    no_place: NoPlace | None = None


class Fitting:
    def __init__(self, books: Books, room: Room, siting: Siting, eviction: Eviction) -> None:
        self._models_max = books.config.models_max
        self._fleet = books.fleet
        self._ledger = books.ledger
        self._room = room
        self._siting = siting
        self._eviction = eviction

    def empty(self, spec: PresetSpec) -> Fit:
        """With none of ours on the machine; what others use stays theirs."""
        gone = set(self._fleet.instances)
        entry = Entry(spec.name)
        if no_place := self._siting.settle(entry, spec, gone=gone):
            return Fit(no_place=no_place)
        entry.site = entry.sites[0]
        return Fit(self._siting.grant(entry, spec, gone=gone)[0])

    def now(self, spec: PresetSpec, now: float) -> Fit:
        """With its own instances counted as gone: they would be replaced."""
        own = {instance.id for instance in self._fleet.of(spec.name)}
        entry = Entry(spec.name, now)
        if no_place := self._siting.settle(entry, spec, gone=own):
            return Fit(no_place=no_place)
        if pins := self._room.refused_for_pins(spec, gone=own):
            return Fit(no_place=NoPlace(pins.code, (), pins.blocked_by, pins.apart))
        gone = own | {instance.id for instance in self._room.leaving()}
        for site in (*entry.sites, *self._siting.worse(entry, spec)):
            shortage = self._shortage(entry, spec, site, gone)
            victims = self._victims(entry, shortage, own, now)
            if not shortage or victims:
                return self._there(entry, spec, site, gone, victims)
        return Fit(Grant(entry.sites[0].placement, 0, entry.sites[0].need), waits=True)

    def _there(
        self,
        entry: Entry,
        spec: PresetSpec,
        site: Site,
        gone: Collection[InstanceId],
        victims: Collection[Instance],
    ) -> Fit:
        entry.site = site
        gone = {*gone, *(victim.id for victim in victims)}
        grant, _ = self._siting.grant(entry, spec, self._room.promised(entry), gone=gone)
        return Fit(grant, tuple(sorted({victim.preset.name for victim in victims})))

    def _shortage(
        self, entry: Entry, spec: PresetSpec, site: Site, gone: Collection[InstanceId]
    ) -> Shortage:
        promised = self._room.promised(entry)
        stay = sum(instance.id not in gone for instance in self._fleet)
        slot = self._models_max > 0 and stay >= self._models_max
        short: Bytes = self._ledger.deficit(site.need, gone, promised, returned=True)
        rivals = tuple(i.id for i in self._room.rivals(spec) if i.id not in gone)
        return Shortage(slot, short, rivals)

    def _victims(
        self, entry: Entry, shortage: Shortage, own: Collection[InstanceId], now: float
    ) -> list[Instance]:
        found = self._eviction.choose(entry, shortage, now)
        return [] if any(victim.id in own for victim in found) else found
