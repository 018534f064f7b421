"""A7: who is not even let into the queue, and is told so at once."""

from __future__ import annotations

from .admission import ASK_AGAIN_SECONDS, Admission
from .books import Books
from .decisions import Decision, Reject
from .estimates import Estimates
from .events import Requested
from .granting import USES, Granting
from .instances import Instance
from .states import State
from .values import Code, Kind, PresetName, Priority, Refusal, RequestId


class Door:
    def __init__(
        self, books: Books, admission: Admission, estimates: Estimates, granting: Granting
    ) -> None:
        self._books = books
        self._config = books.config
        self._presets = books.presets
        self._fleet = books.fleet
        self._queue = books.queue
        self._failures = books.failures
        self._admission = admission
        self._estimates = estimates
        self._granting = granting

    def come_in(self, event: Requested, now: float) -> list[Decision]:
        """It joins the queue, is granted at once, or is refused. Asked twice, it is once in."""
        if event.kind is Kind.LOAD:
            # L2: a person wants it tried by its figures, whatever it took before.
            self._books.surplus.pop(event.preset, None)
        if (
            event.request in self._queue
            or event.request in self._fleet.leases
            or event.request in self._fleet.looks
        ):
            return []
        current = self._fleet.current(event.preset)
        if refusal := self._refusal(event, current, now):
            return [Reject(event.request, refusal)]
        if event.kind is Kind.LOAD:
            # A4: a person's load clears the back-off.
            self._failures.clear(event.preset)
        weight = event.weight if event.weight > 0 else 1.0
        self._books.shares.arrive(event.tenant, weight)
        if event.kind in USES:
            self._books.demand.note(event.preset, now)
        if current is not None and self._is_next(event, current):
            chosen = self._fleet.favourite(event.preset, event.sticky) or current
            return [self._granting.at_once(event, chosen, weight, now)]
        self._queue.join(
            event.request,
            event.preset,
            event.kind,
            min(event.arrived, now),
            now,
            tenant=event.tenant,
            weight=weight,
            priority=together(event.priority, self._presets[event.preset].priority),
            sticky=event.sticky,
        )
        return []

    def refusal_of_one_more(self, preset: PresetName, now: float) -> Refusal | None:
        """What a request of nobody in particular that came now would be told; None: let in."""
        event = Requested(RequestId(-1), preset, now)
        return self._refusal(event, self._fleet.current(preset), now)

    def _is_next(self, event: Requested, current: Instance) -> bool:
        """Nobody waits before it, and a slot is free."""
        return (
            event.kind in USES and event.preset not in self._queue.entries and current.has_free_slot
        )

    def _refusal(self, event: Requested, current: Instance | None, now: float) -> Refusal | None:
        if self._books.shutting_down:
            return Refusal(Code.SHUTTING_DOWN, ASK_AGAIN_SECONDS)
        if event.preset not in self._presets:
            return Refusal(Code.MODEL_NOT_FOUND)
        failure = self._failures.backing_off(event.preset, now)
        if failure is not None and self._presets[event.preset].remote:
            return Refusal(Code.UPSTREAM_UNAVAILABLE, failure.until - now, failure.exit)
        if failure is not None and current is None and event.kind is not Kind.LOAD:
            # A4: nothing is evicted meanwhile for a load that would fail again.
            return Refusal(Code.MODEL_BACKING_OFF, failure.until - now, failure.exit)
        if event.kind is Kind.GET:
            return self._refusal_of_a_look(event, current, now)
        if _served_at_once(event, current):
            return None
        return self._refusal_of_the_queue(event, now)

    def _refusal_of_a_look(
        self, event: Requested, current: Instance | None, now: float
    ) -> Refusal | None:
        """A8: it loads only what fits at once, and never wakes a sleeper."""
        if current is not None:
            if current.state is State.LOADING and len(self._queue) >= self._config.queue_limit:
                return Refusal(Code.QUEUE_FULL, self._estimates.retry_after(event.preset, now))
            may = current.state in (State.LOADED, State.LOADING)
        else:
            may = self._admission.a_look_may_load(event.preset, now)
        return None if may else Refusal(Code.MODEL_NOT_LOADED, ASK_AGAIN_SECONDS)

    def _refusal_of_the_queue(self, event: Requested, now: float) -> Refusal | None:
        code = self._full(event)
        return Refusal(code, self._estimates.retry_after(event.preset, now)) if code else None

    def _full(self, event: Requested) -> Code | None:
        """Which of the queue's limits it runs into. A person's load runs into that of the whole
        only: it may be what empties the queue."""
        config = self._config
        if len(self._queue) >= config.queue_limit:
            return Code.QUEUE_FULL
        if event.kind not in USES:
            return None
        most = config.queue_limit_per_tenant
        if most and self._queue.of_tenant.get(event.tenant, 0) >= most:
            return Code.TENANT_QUEUE_FULL
        own = self._presets[event.preset].queue_limit
        most = config.queue_limit_per_preset if own is None else own
        entry = self._queue.entries.get(event.preset)
        return Code.MODEL_QUEUE_FULL if most and entry and entry.requests >= most else None


def together(tenant: Priority, preset: Priority) -> Priority:
    """One's class shifts the other's: two low ones are no lower than low."""
    if preset is Priority.NORMAL:
        return tenant
    return Priority(min(max(tenant + preset - Priority.NORMAL, Priority.LOW), Priority.HIGH))


def _served_at_once(event: Requested, current: Instance | None) -> bool:
    if current is None:
        return False
    return current.has_free_slot if event.kind in USES else current.state is State.LOADED
