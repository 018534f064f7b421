"""The living children as the core sees them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from zlib import crc32

from .decisions import Reason
from .sizes import NOTHING_GRANTED, Grant, Need, Shape, loading
from .states import LEAVING, REPORTS, SETTLED, Cue, State, advance
from .values import InstanceId, PresetName, PresetSpec, RequestId, TenantId

# How a drain that is undone gets back to what the child has meanwhile said of itself.
_BACK_TO: dict[State, tuple[Cue, ...]] = {
    State.LOADED: (),
    State.SLEEPING: (Cue.ASLEEP,),
    State.LOADING: (Cue.ASLEEP, Cue.LOADING),
}


def _shelves() -> dict[State, dict[InstanceId, Instance]]:
    return {state: {} for state in State}


@dataclass(slots=True)
class Lease:
    """One request's hold on an instance. `charged` are the seconds that its tenant was charged for
    it in advance, `in_line` whether its line was as well (Line.served). A `socket` lasts as long as
    its client likes, so it is no measure of answers."""

    tenant: TenantId
    weight: float
    since: float
    charged: float = 0.0
    socket: bool = False
    in_line: bool = False


@dataclass(slots=True, eq=False)
class Instance:
    """One child. `preset` is what it was started with; its policy follows later edits. `limit` is
    how many leases it takes."""

    id: InstanceId
    preset: PresetSpec
    started_at: float
    last_used: float
    limit: int = 1
    startup: bool = False
    grant: Grant = NOTHING_GRANTED
    step: int = 0  # which of its preset's contexts it was granted
    allocated: Need | None = None  # what the child has said that it took
    shape: Shape | None = None  # by which its grant was worked out
    alone: bool = False  # its grant is a guess that was too large (L6)
    state: State = State.LOADING
    child: State = State.LOADING  # what it last said of itself, also while it drains
    has_loaded: bool = False  # so that LOADING is a wake
    leases: dict[RequestId, Lease] = field(default_factory=dict)
    abandoned: set[RequestId] = field(default_factory=set)  # those of `leases` nobody reads
    looks: dict[RequestId, float] = field(default_factory=dict)  # until when; no lease, no use (A8)
    holds_unread: bool = False  # streams that have ended, and are not read to their end
    used: bool = False  # it has been granted to a request
    wishes: dict[TenantId, float | None] = field(default_factory=dict)
    """For how long each tenant that has used it wishes it kept once idle; None: as its preset."""
    for_people: bool = False  # loaded, or used, by who has no wish: nobody's wish shortens its life
    loaded_at: float = 0.0
    released_at: float = 0.0  # when its last lease ended
    stale: bool = False  # its options are not those of its preset any more; serves while busy
    beside: bool = False  # loads beside a head that only waits for room (A2)
    unwanted: bool = False  # loaded when all its waiters had left, and not used since (A3)
    reason: Reason | None = None  # why it drains or stops
    for_preset: PresetName | None = None
    kill_at: float | None = None  # when the exit it was asked for is overdue
    progress: float = -1.0  # of its load or wake
    progressed_at: float = 0.0  # when that last grew, or the load began
    load_began_at: float = 0.0
    left_at: float = 0.0  # when it was asked to exit, or killed
    by_state: dict[State, dict[InstanceId, Instance]] = field(default_factory=_shelves)
    """Where it stands by its state: the fleet's, once it is in."""
    changed: bool = True  # its state, not its leases only, since somebody last looked
    siblings: dict[InstanceId, Instance] = field(default_factory=dict)
    """All of its preset, itself among them."""
    touched: dict[InstanceId, Instance] = field(default_factory=dict)
    """Where it is put down whenever its state or its leases change: the fleet's, once it is in."""
    mean_weight_known: float | None = None  # since its leases last changed

    @property
    def takes(self) -> Need:
        """In memory, awake; the most of it while it wakes."""
        if self.allocated is None:
            return self.grant.need
        return loading(self.allocated, self.grant.need.passing)

    @property
    def idle(self) -> bool:
        return not self.leases

    @property
    def busy(self) -> bool:
        """Someone reads what it answers."""
        return len(self.leases) > len(self.abandoned)

    @property
    def mean_weight(self) -> float:
        """Of those who hold its leases."""
        if self.mean_weight_known is None:
            weights = [lease.weight for lease in self.leases.values()]
            self.mean_weight_known = sum(weights) / len(weights)
        return self.mean_weight_known

    @property
    def leaving(self) -> bool:
        return self.state in LEAVING

    @property
    def spare(self) -> bool:
        """Another one of its preset answers in any case: a further replica, or the successor of an
        old version."""
        return len(self.siblings) > 1 and any(
            other.state is State.LOADED for other in self.siblings.values() if other is not self
        )

    @property
    def has_free_slot(self) -> bool:
        return self.state is State.LOADED and len(self.leases) < self.limit

    @property
    def drains_for_an_entry(self) -> bool:
        """A6; not one that was unloaded, edited or deleted."""
        return self.state is State.DRAINING and self.reason is Reason.EVICTED

    @property
    def remote(self) -> bool:
        """No child: it runs elsewhere, and takes no room here."""
        return self.preset.remote

    def runs(self, spec: PresetSpec | None) -> bool:
        """Was it started with these options?"""
        return (
            spec is not None
            and spec.fingerprint == self.preset.fingerprint
            and spec.parallel == self.preset.parallel
            and spec.remote == self.preset.remote
        )

    def advance(self, cue: Cue) -> None:
        before, self.state = self.state, advance(self.state, cue)
        if self.state is not before:
            self.by_state[before].pop(self.id, None)
            self.by_state[self.state][self.id] = self
        self.changed = True
        self.touched[self.id] = self
        if cue in REPORTS or cue is Cue.WAKE:
            self.child = advance(self.child, cue)
            self.has_loaded = self.has_loaded or self.child in SETTLED

    def load_begins(self, now: float) -> None:
        self.progress, self.progressed_at, self.load_began_at = -1.0, now, now
        self.touched[self.id] = self

    def note_progress(self, progress: float | None, now: float) -> None:
        """What is said again is none: a child may say the same for ever."""
        if progress is not None and progress > self.progress:
            self.progress, self.progressed_at = progress, now
            self.touched[self.id] = self

    def stalls_at(self, patience: float) -> float | None:
        """When its load has not got on for so long; None while it loads nothing, or is ended."""
        loads = self.child is State.LOADING and self.state is not State.STOPPING
        return self.progressed_at + patience if loads else None

    def undrain(self) -> None:
        """Back from DRAINING to what the child has meanwhile said of itself."""
        back = _BACK_TO[self.child]
        self.advance(Cue.UNDRAIN)
        for cue in back:
            self.advance(cue)


_NEARNESS = {State.LOADED: 0, State.LOADING: 1, State.SLEEPING: 2}


def _nearness(instance: Instance) -> tuple[int, bool, int, InstanceId]:
    return _NEARNESS[instance.state], instance.stale, len(instance.leases), instance.id


def _together(sticky: str, instance: InstanceId) -> int:
    """The same in every life: no hash of Python's own."""
    return crc32(f"{instance}:{sticky}".encode())


class Fleet:
    """All living instances, in the order of their ids, and who holds a lease on which. What runs
    elsewhere stands apart, in `remotes`: whoever counts, chooses or ends children never sees it."""

    def __init__(self, oversubscribe: float = 1.0) -> None:
        self.instances: dict[InstanceId, Instance] = {}
        self.leases: dict[RequestId, Instance] = {}
        self.looks: dict[RequestId, Instance] = {}
        self.touched: dict[InstanceId, Instance] = {}
        """Those that have changed since somebody last looked."""
        self.by_state = _shelves()
        self.unread: dict[InstanceId, Instance] = {}
        """Those from which nobody reads."""
        self.pinned: dict[InstanceId, Instance] = {}
        self.stale: dict[InstanceId, Instance] = {}
        """Those that were started with other options than their preset now has."""
        self.remotes: dict[PresetName, Instance] = {}
        self._oversubscribe = oversubscribe
        self._by_preset: dict[PresetName, dict[InstanceId, Instance]] = {}
        self._ids = count(1)

    def __iter__(self) -> Iterator[Instance]:
        return iter(self.instances.values())

    def of(self, preset: PresetName) -> list[Instance]:
        return list(self._by_preset.get(preset, {}).values())

    def current(self, preset: PresetName) -> Instance | None:
        """Of the preset's instances that are not on their way out the one that is nearest to
        answering: of those that are loaded the one with the fewest leases, and one of an old
        version only where there is no other."""
        if (remote := self.remotes.get(preset)) is not None:
            return remote
        siblings = self._by_preset.get(preset)
        if siblings is None:
            return None
        if len(siblings) == 1:
            (instance,) = siblings.values()
            return None if instance.state in LEAVING else instance
        staying = [instance for instance in siblings.values() if not instance.leaving]
        return min(staying, key=_nearness, default=None)

    def favourite(self, preset: PresetName, sticky: str) -> Instance | None:
        """The same for those who want to come to the same instance each time, as long as it has a
        free slot: the one that a hash of both names."""
        siblings = self._by_preset.get(preset)
        if not sticky or siblings is None or len(siblings) == 1 or preset in self.remotes:
            return self.current(preset)
        free = [i for i in siblings.values() if i.has_free_slot and not i.stale]
        return max(free, key=lambda i: (_together(sticky, i.id), i.id), default=None) or (
            self.current(preset)
        )

    def add(
        self,
        preset: PresetSpec,
        now: float,
        *,
        startup: bool,
        beside: bool,
        grant: Grant = NOTHING_GRANTED,
        step: int = 0,
        alone: bool = False,
    ) -> Instance:
        instance = Instance(
            InstanceId(next(self._ids)),
            preset,
            now,
            now,
            limit=max(1, int(preset.parallel * self._oversubscribe)),
            startup=startup,
            grant=grant,
            step=step,
            shape=preset.shape,
            alone=alone,
            beside=beside,
            touched=self.touched,
            by_state=self.by_state,
        )
        instance.load_begins(now)
        self.instances[instance.id] = instance
        instance.siblings = self._by_preset.setdefault(preset.name, {})
        instance.siblings[instance.id] = instance
        self.by_state[instance.state][instance.id] = instance
        self.unread[instance.id] = instance
        self.set_policy(instance, preset)
        return instance

    def set_remote(self, preset: PresetSpec, now: float, *, limit: int) -> Instance:
        """From now on it is another one: leases that the one before holds run on, and count for
        nothing. It is there from the first moment."""
        instance = Instance(
            InstanceId(next(self._ids)), preset, now, now, limit=limit, touched=self.touched
        )
        instance.advance(Cue.READY)
        instance.loaded_at = now
        self.remotes[preset.name] = instance
        return instance

    def drop_remote(self, preset: PresetName) -> None:
        instance = self.remotes.pop(preset)
        self.touched[instance.id] = instance

    def set_policy(self, instance: Instance, preset: PresetSpec) -> None:
        """What its preset now says; its options are the same."""
        instance.preset = preset
        if preset.pinned:
            self.pinned[instance.id] = instance
        else:
            self.pinned.pop(instance.id, None)
        self._touch(instance, changed=True)

    def set_stale(self, instance: Instance, *, stale: bool) -> None:
        instance.stale = stale
        if stale:
            self.stale[instance.id] = instance
        else:
            self.stale.pop(instance.id, None)

    def _touch(self, instance: Instance, *, changed: bool = False) -> None:
        instance.changed = instance.changed or changed
        self.touched[instance.id] = instance

    def _note_readers(self, instance: Instance) -> None:
        instance.mean_weight_known = None
        if instance.busy or instance.remote:
            self.unread.pop(instance.id, None)
        else:
            self.unread[instance.id] = instance
        self.touched[instance.id] = instance

    def remove(self, instance: Instance) -> None:
        """With its leases and looks. It has exited."""
        instance.advance(Cue.EXIT)
        del self.by_state[State.EXITED][instance.id]
        self.unread.pop(instance.id, None)
        self.pinned.pop(instance.id, None)
        self.stale.pop(instance.id, None)
        for request in instance.leases:
            del self.leases[request]
        for request in instance.looks:
            del self.looks[request]
        del self.instances[instance.id]
        siblings = self._by_preset[instance.preset.name]
        del siblings[instance.id]
        if not siblings:
            del self._by_preset[instance.preset.name]
        self.touched[instance.id] = instance

    def take_lease(self, request: RequestId, instance: Instance, lease: Lease) -> None:
        instance.leases[request] = lease
        self.leases[request] = instance
        self._note_readers(instance)

    def end_lease(self, request: RequestId, now: float) -> Lease | None:
        """None when it holds none (any more)."""
        instance = self.leases.pop(request, None)
        if instance is None:
            return None
        lease = instance.leases.pop(request)
        instance.abandoned.discard(request)
        instance.released_at = now
        self._note_readers(instance)
        return lease

    def abandon_lease(self, request: RequestId) -> bool:
        """Whether it holds one."""
        instance = self.leases.get(request)
        if instance is None:
            return False
        instance.abandoned.add(request)
        self._note_readers(instance)
        return True

    def look(self, request: RequestId, instance: Instance, until: float) -> None:
        instance.looks[request] = until
        self.looks[request] = instance
        self._touch(instance)

    def end_look(self, request: RequestId) -> bool:
        """Whether there was one."""
        instance = self.looks.pop(request, None)
        if instance is not None:
            del instance.looks[request]
        return instance is not None
