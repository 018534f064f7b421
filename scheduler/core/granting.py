"""The one way in and the one way out of "busy": a lease is counted in the step that grants it, and
ends once."""

from __future__ import annotations

from .books import Books
from .decisions import Decision, Grant, Reject
from .events import Requested
from .instances import Instance, Lease
from .line import Waiter
from .sizes import NO_NEED
from .states import State
from .values import Kind, PresetName, Refusal, RequestId
from .wait_queue import Entry

USES = frozenset({Kind.POST, Kind.WEBSOCKET})


class Granting:
    def __init__(self, books: Books) -> None:
        self._fleet = books.fleet
        self._queue = books.queue
        self._order = books.order
        self._shares = books.shares
        self._learned = books.learned
        self._ledger = books.ledger
        self._look_seconds = books.config.look_seconds

    def all_that_fit(self, entry: Entry, instance: Instance | None, now: float) -> list[Decision]:
        """In the step in which the instance is ready: no window in which it looks idle."""
        if instance is None or instance.state is not State.LOADED:
            return []
        decisions: list[Decision] = []
        while waiter := entry.loads.first:
            decisions.append(self._grant(waiter, instance, now))
        preset = entry.preset
        while instance.has_free_slot and (waiter := self._order.next_request(entry, now)):
            chosen = self._fleet.favourite(preset, waiter.sticky) or instance
            decisions.append(self._grant(waiter, chosen, now))
            instance = self._fleet.current(preset) or instance
        return decisions

    def _grant(self, waiter: Waiter, instance: Instance, now: float) -> Grant:
        preset = instance.preset.name
        in_line = self._queue.serve(waiter, self._learned.known_answer(preset))
        self._queue.leave(waiter.request)
        if waiter.kind is not Kind.GET:
            instance.unwanted = False
        if waiter.kind in USES:
            self._lease(waiter, instance, waiter.weight, now, in_line=in_line)
        else:
            self._shares.leave(waiter.tenant)
            if waiter.kind is not Kind.GET:
                instance.for_people = True
            else:
                self._fleet.look(waiter.request, instance, now + self._look_seconds)
        return Grant(waiter.request, instance.id)

    def at_once(self, event: Requested, instance: Instance, weight: float, now: float) -> Grant:
        """Nobody waits before it."""
        instance.unwanted = False
        self._lease(event, instance, weight, now)
        return Grant(event.request, instance.id)

    def _lease(
        self,
        asked: Waiter | Requested,
        instance: Instance,
        weight: float,
        now: float,
        *,
        in_line: bool = False,
    ) -> None:
        # Charged in advance, so that who has many under way does not count as one who has none.
        charged = self._learned.known_answer(instance.preset.name)
        self._shares.charge(asked.tenant, charged, now)
        instance.last_used, instance.used = now, True
        instance.wishes[asked.tenant] = None
        socket = asked.kind is Kind.WEBSOCKET
        lease = Lease(asked.tenant, weight, now, charged, socket=socket, in_line=in_line)
        self._fleet.take_lease(asked.request, instance, lease)

    def end(
        self, request: RequestId, now: float, *, answered: bool, tokens: int | None = None
    ) -> None:
        """A9: it leaves at once, as a waiter or with its lease; harmless when it is over."""
        if (instance := self._fleet.leases.get(request)) is not None:
            if lease := self.end_lease(request, instance, now):
                if answered and not lease.socket:
                    self._learned.note_answer(instance.preset.name, now - lease.since, tokens)
                self.settle(lease, instance, now, tokens)
        elif (waiter := self._queue.leave(request)) is not None:
            self._shares.leave(waiter.tenant)
        else:
            self._fleet.end_look(request)

    def end_lease(self, request: RequestId, instance: Instance, now: float) -> Lease | None:
        """None when it holds none any more. L8: what fell asleep under its last one holds nothing
        from now on."""
        lease = self._fleet.end_lease(request, now)
        if lease is not None and instance.child is State.SLEEPING and instance.idle:
            self._ledger.hold(instance.id, NO_NEED)
        return lease

    def settle(
        self, lease: Lease, instance: Instance, now: float, tokens: int | None = None
    ) -> None:
        """What it really used, instead of what was charged in advance."""
        used = self._shares.seconds(tokens, now - lease.since)
        if lease.in_line:
            beyond = (used - lease.charged) / lease.weight
            self._queue.correct(instance.preset.name, lease.tenant, beyond)
        charged = self._shares.faded(lease.charged, now - lease.since)
        self._shares.charge(lease.tenant, used - charged, now)
        self._shares.leave(lease.tenant)

    def refuse_all(self, preset: PresetName, refusal: Refusal) -> list[Decision]:
        return [self.refused(waiter, refusal) for waiter in self._queue.drop(preset)]

    def refused(self, waiter: Waiter, refusal: Refusal) -> Reject:
        """It has left the queue."""
        self._shares.leave(waiter.tenant)
        return Reject(waiter.request, refusal)
