"""The scheduler itself: one event in, a list of decisions out.

No clock, no I/O, no randomness: the same events give the same decisions, so a recorded log of
events is a complete bug report. An event marks what it touches; every step then settles all that
is touched, until nothing is: drains, grants, head, room, timers. So a step costs what it changes,
not what waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from . import leaving
from .admission import Admission
from .books import Books
from .children import Children
from .decisions import Decision
from .door import Door
from .draining import Draining
from .edits import Edits
from .estimates import Estimates
from .events import (
    Abandoned,
    AllocationReported,
    ApplyAsked,
    Cancelled,
    Detached,
    DevicesRead,
    Event,
    Exited,
    KeepWished,
    LoadingReported,
    PresetsChanged,
    ReadyReported,
    Released,
    RemoteHeard,
    Requested,
    ShutdownAsked,
    Silent,
    SleepingReported,
    SlotsSeen,
    StreamsHeld,
    Ticked,
    UnloadAsked,
)
from .eviction import Eviction
from .explaining import Explaining, Explanation, QueuedPreset
from .failures import Failure
from .fitting import Fit, Fitting
from .granting import Granting
from .instances import Instance
from .ladders import Ladders, Wishes, ladders
from .ledger import Ledger
from .over_limit import OverLimit
from .remotes import Remotes
from .room import Room
from .siting import Siting
from .sizes import Grant
from .states import State
from .timers import Timer, deadlines
from .upcoming import Upcoming, UpcomingRequests
from .values import Code, Config, InstanceId, PresetName, PresetSpec, Refusal, RequestId
from .wait_queue import Entry

_NEVER = float("inf")


class Planner:
    """Owns all scheduling state. The shell may read everything that has no underscore."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._books = books = Books(config)
        self._fleet, self._queue, self._order = books.fleet, books.queue, books.order
        self._granting = Granting(books)
        room = Room(books)
        siting = Siting(books)
        eviction = Eviction(books)
        self._fitting = Fitting(books, room, siting, eviction)
        self._draining = Draining(books, room, siting, eviction)
        self._admission = Admission(books, room, siting, eviction, self._draining, self._granting)
        self._estimates = Estimates(books, self._draining)
        self._explaining = Explaining(books, self._admission, self._estimates, self._draining)
        self._door = Door(books, self._admission, self._estimates, self._granting)
        self._upcoming = UpcomingRequests(
            books, self._door, self._explaining, self._estimates, self._fitting
        )
        self._children = Children(books, self._granting)
        self._over_limit = OverLimit(books, eviction, self._draining)
        self._remotes = Remotes(books, self._granting)
        self._edits = Edits(books, self._granting, self._remotes)
        self._timer = Timer()
        self._now = -_NEVER
        self._next_deadline = _NEVER  # the earliest of the instances', or earlier
        self._look_for_room = False  # something has changed for those who wait for a load

    # What others may read ---------------------------------------------------------

    @property
    def presets(self) -> Mapping[PresetName, PresetSpec]:
        return self._books.presets

    @property
    def shutting_down(self) -> bool:
        return self._books.shutting_down

    @property
    def instances(self) -> Mapping[InstanceId, Instance]:
        return self._fleet.instances

    @property
    def remotes(self) -> Mapping[PresetName, Instance]:
        """What runs elsewhere, and takes requests."""
        return self._fleet.remotes

    @property
    def failures(self) -> Mapping[PresetName, Failure]:
        return self._books.failures.view

    def instances_of(self, preset: PresetName) -> list[Instance]:
        return self._fleet.of(preset)

    def waits_for(self, preset: PresetName) -> bool:
        """Whether anybody waits for it."""
        return preset in self._queue.entries

    def entries(self, now: float) -> list[QueuedPreset]:
        """In the order of the queue."""
        return self._explaining.entries(now)

    def explain(self, request: RequestId, now: float) -> Explanation | None:
        """Why it waits, and how long still; None for one that does not wait."""
        return self._explaining.explain(request, now)

    def waiters(
        self, preset: PresetName, now: float, *, offset: int, limit: int
    ) -> tuple[int, list[Explanation]]:
        """How many wait for the preset, and one page of them, the next first."""
        return self._explaining.waiters(preset, now, offset=offset, limit=limit)

    def next_for(self, preset: PresetName, now: float) -> Upcoming:
        """How long a request for it would wait that came now, and for what."""
        return self._upcoming.next_for(preset, now)

    def retry_after(self, preset: PresetName, now: float) -> float:
        """Seconds after which it is worth asking for the preset again."""
        return self._estimates.retry_after(preset, now)

    def fit(self, spec: PresetSpec, now: float) -> tuple[Fit, Fit]:
        """Where a preset of this kind would go now, and on a machine with none of ours on it."""
        return self._fitting.now(spec, now), self._fitting.empty(spec)

    def ladders(self, preset: PresetName, wishes: Wishes, known: Grant | None) -> Ladders:
        """Step by step what it would take; `known` is what it is known to take at one of them."""
        return ladders(self._books, preset, wishes, known)

    def unmeasured(self, now: float) -> list[tuple[PresetName, bool]]:
        """Those whose waiters wait for a measurement, and whether they will not do so for much
        longer: then a guess is wanted."""
        return self._admission.unmeasured(now)

    @property
    def ledger(self) -> Ledger:
        return self._books.ledger

    # One step ---------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Decision]:
        """A clock that goes backward stands still here."""
        now = self._now = max(now, self._now)
        decisions = self._note(event, now)
        if now >= self._next_deadline:
            decisions += self._note_deadlines(now)
        ledger = self._books.ledger
        for due in (self._draining.next_at, self._admission.next_look):
            if due is not None and due <= now:
                self._look_for_room = True
        if ledger.next_return is not None and ledger.next_return <= now:
            self._look_for_room |= ledger.end_returns(now)
        self._settle(decisions, now)
        expiry = self._queue.next_expiry()
        while expiry is not None and expiry <= now:
            decisions += self._refuse_those_who_waited_too_long(now)
            self._settle(decisions, now)
            expiry = self._queue.next_expiry()
        deadline = None if self._next_deadline == _NEVER else self._next_deadline
        waits = self._draining.next_at, self._admission.next_look
        dues = deadline, expiry, ledger.next_return, *waits
        return decisions + self._timer.set(dues, now)

    def _note(self, event: Event, now: float) -> list[Decision]:  # noqa: C901 - one row per event
        match event:
            case Requested():
                return self._door.come_in(event, now)
            case Released(request, tokens):
                self._granting.end(request, now, answered=True, tokens=tokens)
            case Cancelled(request):
                self._granting.end(request, now, answered=False)
            case Detached(request):
                self._queue.detach(request, now)
            case Abandoned(request):
                if not self._fleet.abandon_lease(request):
                    self._granting.end(request, now, answered=False)
            case RemoteHeard(request, failed):
                return self._remotes.hear(request, failed, now)
            case (
                LoadingReported()
                | ReadyReported()
                | AllocationReported()
                | SleepingReported()
                | SlotsSeen()
                | StreamsHeld()
                | Silent()
                | Exited()
            ):
                return self._children.hear(event, now)
            case PresetsChanged(presets, renamed):
                decisions = self._edits.take_over(presets, dict(renamed), now)
                self._look_for_room = True
                return decisions
            case DevicesRead(devices):
                shelves = self._fleet.by_state
                # A child may wake by itself under a lease, and drain meanwhile.
                drains = shelves[State.DRAINING].values()
                wakes = [i.id for i in drains if i.child is State.LOADING]
                moving = {*shelves[State.LOADING], *shelves[State.STOPPING], *wakes}
                self._books.ledger.read(devices, moving, now)
                self._look_for_room = True
            case UnloadAsked(preset, force):
                return self._edits.unload(preset, now, force=force)
            case ApplyAsked(preset):
                return self._edits.apply(preset, now)
            case KeepWished(preset, tenant, seconds):
                self._edits.wish(preset, tenant, seconds)
            case ShutdownAsked():
                return self._edits.shut_down()
            case Ticked():
                self._books.shares.forget(now)
                self._look_for_room = True  # shares fade, so another one may be first now
            case _:
                assert_never(event)
        return []

    # Settling what is touched -------------------------------------------------------

    def _settle(self, decisions: list[Decision], now: float) -> None:
        fleet, queue = self._fleet, self._queue
        while True:
            if fleet.touched:
                self._settle_instances(decisions, now)
            served = self._settle_presets(decisions, now) if queue.touched else []
            if self._look_for_room and fleet.by_state[State.DRAINING]:
                decisions += self._draining.mend(now)
            for entry, current in served:
                if entry.size:
                    decisions += self._granting.all_that_fit(entry, current, now)
            if fleet.touched or queue.touched:
                continue
            if not self._look_for_room:
                return
            if ends := self._over_limit.settle(now):
                decisions += ends
                continue
            self._look_for_room = False
            if len(self._order) or self._admission.skipped:
                decisions += self._admission.admit(now)
            else:
                decisions += self._admission.nobody_waits(now)

    def _settle_instances(self, decisions: list[Decision], now: float) -> None:
        """What has changed with an instance concerns its preset's waiters; and if its state has, or
        nobody reads from it any more, those who wait for room."""
        touched = list(self._fleet.touched.values())
        self._fleet.touched.clear()
        for instance in touched:
            preset = instance.preset.name
            if instance.preset.remote:
                if preset in self._queue.entries:
                    self._queue.touched[preset] = None
                decisions += self._children.note_time(instance, now)
                self._watch(instance)
                continue
            busy = instance.busy
            if instance.changed or not busy:
                self._look_for_room, instance.changed = True, False
                self._queue.touched[preset] = None
            elif preset in self._queue.entries:
                self._queue.touched[preset] = None
            if instance.state is State.EXITED or (
                busy and instance.state is instance.child is State.LOADED and not instance.looks
            ):
                continue  # there is nothing that time or a last reader could end
            decisions += leaving.settle(instance, now)
            decisions += self._children.note_time(instance, now)
            self._watch(instance)

    def _settle_presets(
        self, decisions: list[Decision], now: float
    ) -> list[tuple[Entry, Instance | None]]:
        """Has each a place among those who wait for a load, and does its clock run? The entries
        that may be served now, with their instances."""
        touched = list(self._queue.touched)
        self._queue.touched.clear()
        if self._queue.entry_gone:
            # What was loaded or drained for it may be another's now.
            self._queue.entry_gone, self._look_for_room = False, True
        served: list[tuple[Entry, Instance | None]] = []
        for preset in touched:
            entry = self._queue.entries.get(preset)
            current = self._fleet.current(preset)
            if entry is None:
                self._order.drop(preset)
                if current is not None and not current.busy:
                    # Nobody waits for it any more: its keep-alive counts again.
                    decisions += self._children.note_time(current, now)
                    self._watch(current)
                continue
            self._admission.register(entry, current)
            loads = current is not None and current.state is State.LOADING
            # A7: an entry's clock stands while it is loaded for, or room is made for it.
            entry.let_clock_run(now, runs=not loads and not entry.room)
            self._queue.watch_expiry(entry)
            if current is not None:
                served.append((entry, current))
            if not self._look_for_room:
                self._look_for_room = self._admission.may_matter(entry, current, now)
        return served

    # Time -------------------------------------------------------------------------

    def _watch(self, instance: Instance) -> None:
        wanted = instance.preset.name in self._queue.entries
        for due in deadlines(instance, self.config, wanted=wanted):
            if due < self._next_deadline:
                self._next_deadline = due

    def _note_deadlines(self, now: float) -> list[Decision]:
        self._next_deadline = _NEVER
        decisions: list[Decision] = []
        for instance in [*self._fleet, *self._fleet.remotes.values()]:
            decisions += self._children.note_time(instance, now)
            self._watch(instance)
        return decisions

    def _refuse_those_who_waited_too_long(self, now: float) -> list[Decision]:
        return [
            self._granting.refused(
                waiter,
                Refusal(Code.QUEUE_TIMEOUT, self._estimates.retry_after(waiter.preset, now)),
            )
            for waiter in self._queue.expired(now)
        ]
