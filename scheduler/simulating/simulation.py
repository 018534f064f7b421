"""The one event loop, for every policy: virtual time jumps to whatever happens next."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Protocol, runtime_checkable

from scheduler.core.decisions import (
    AskExit,
    Decision,
    Drain,
    Grant,
    Kill,
    Reject,
    Revoke,
    Start,
    Undrain,
    Wake,
    WakeAt,
)
from scheduler.core.events import (
    Abandoned,
    Cancelled,
    DevicesRead,
    Event,
    PresetsChanged,
    Released,
    Requested,
    Ticked,
)
from scheduler.core.values import Kind, RequestId
from scheduler.simulating.memory import as_readings

from .figures import Figures, Tally
from .machine import Ask, Handler, Machine
from .policy import Policy
from .workload import FOREVER, Arrival, Trace, between

TICK_SECONDS = 1.0
"""The policy hears something at least so often: the time, when nothing else happens."""
REFUSED_CLIENT_RETURNS_SECONDS = 1.0
"""A client in a closed loop asks again so long after a refusal, at the least."""


class ImpossibleDecision(Exception):
    """The policy decided what no shell could carry out: a fault of the policy."""


class Estimate(Protocol):
    seconds: float | None


@runtime_checkable
class Explains(Protocol):
    """A policy that says how long a request will still wait."""

    def explain(self, request: RequestId, now: float) -> Estimate | None: ...


class Simulation:
    """One run of one trace under one policy. `sample_estimates`: ask the policy for an estimate at
    every so manieth arrival; 0 never."""

    def __init__(self, policy: Policy, trace: Trace, *, sample_estimates: int = 0) -> None:
        self._trace = trace
        self._handle = policy.handle
        self._explain = policy.explain if isinstance(policy, Explains) else None
        self._sample = sample_estimates if self._explain else 0
        self._tally = Tally(len(trace.tenants))
        self._heap: list[tuple[float, int, Handler, Any]] = []
        self._number = 0
        self._asks: dict[int, Ask] = {}
        self._requests = 0
        self._wakes_at: float | None = None
        self._told = 0.0  # when the policy last heard something
        self._randoms = [Random(f"client {i} {trace.seed}") for i in range(len(trace.clients))]
        self._machine = Machine(
            trace, self._tally, self._later, self._tell, self._lost, self._answered
        )
        self._orders: dict[type, Callable[[Any, float], None]] = {
            Grant: self._grant,
            Reject: self._reject,
            Revoke: self._revoke,
            Start: self._machine.start,
            AskExit: self._ask_exit,
            Kill: self._kill,
            Drain: self._nothing_to_do,
            Undrain: self._nothing_to_do,
            WakeAt: self._wake_at,
            Wake: self._impossible,
        }

    def run(self) -> Figures:
        self._begin()
        now = self._go()
        return self._end(now)

    # Time -------------------------------------------------------------------------

    def _begin(self) -> None:
        self._tell(PresetsChanged(self._trace.specs), 0.0)
        if self._trace.capacity:
            self._tell(DevicesRead(as_readings(self._trace.capacity)), 0.0)
        for number, client in enumerate(self._trace.clients):
            self._later(client.begins, self._client_asks, number)
        self._later(TICK_SECONDS, self._tick, None)

    def _go(self) -> float:
        """Until nobody is left, or the trace's time is up; the time at which it ended."""
        heap, until, asks = self._heap, self._trace.until, self._asks
        arrivals = iter(self._trace.arrivals())
        following = next(arrivals, None)
        now = 0.0
        while heap:
            if following is not None and following.at <= heap[0][0]:
                if following.at > until:
                    return until
                now = following.at
                self._arrive(following, -1, now)
                following = next(arrivals, None)
                continue
            at, _, handler, what = heappop(heap)
            if at > until:
                return until
            now = at
            handler(what, now)
            if following is None and not asks and not self._randoms:
                return now
        return now

    def _end(self, now: float) -> Figures:
        for ask in self._asks.values():
            if not ask.over and ask.begun < 0:
                self._tally.still_waiting += 1
                self._tally.waited(ask.arrival.preset, ask.arrival.tenant, now - ask.arrival.at)
        self._machine.close(now)
        places = self._trace.places or len(self._trace.models)
        return self._tally.figures(self._trace.tenants, places, now)

    def _later(self, at: float, handler: Handler, what: Any) -> None:
        self._number = number = self._number + 1
        heappush(self._heap, (at, number, handler, what))

    def _tick(self, _: None, now: float) -> None:
        if self._told + TICK_SECONDS <= now:
            self._tell(Ticked(), now)
        self._later(self._told + TICK_SECONDS, self._tick, None)

    def _wake_at(self, decision: WakeAt, now: float) -> None:
        self._wakes_at = max(decision.when, now)
        self._later(self._wakes_at, self._wake, self._wakes_at)

    def _wake(self, when: float, now: float) -> None:
        if when == self._wakes_at:
            self._wakes_at = None
            self._tell(Ticked(), now)

    # The policy -------------------------------------------------------------------

    def _tell(self, event: Event, now: float) -> None:
        self._told = now
        decisions: list[Decision] = self._handle(event, now)
        if decisions:
            orders = self._orders
            for decision in decisions:
                orders[type(decision)](decision, now)

    def _grant(self, grant: Grant, now: float) -> None:
        ask = self._asks.get(grant.request)
        child = self._machine.children.get(grant.instance)
        if ask is None or ask.child is not None or child is None or not child.ready:
            raise ImpossibleDecision(f"at {now:g} s: {grant}")
        self._machine.take(ask, child, now)

    def _reject(self, reject: Reject, now: float) -> None:
        ask = self._asks.pop(reject.request, None)
        if ask is None or ask.child is not None:
            raise ImpossibleDecision(f"at {now:g} s: {reject}")
        ask.over = True
        refusal = reject.refusal
        self._tally.refused[refusal.code.value] += 1
        if now > ask.arrival.at:
            self._tally.waited(ask.arrival.preset, ask.arrival.tenant, now - ask.arrival.at)
        pause = max(REFUSED_CLIENT_RETURNS_SECONDS, refusal.retry_after_seconds or 0.0)
        self._client_returns(ask, now + pause)

    def _revoke(self, revoke: Revoke, now: float) -> None:
        ask = self._asks.get(revoke.request)
        if ask is not None and ask.child is not None:
            raise ImpossibleDecision(f"at {now:g} s: {revoke}, and its child lives")

    def _ask_exit(self, decision: AskExit, now: float) -> None:
        self._machine.stop(decision.instance, decision.reason, now, kill=False)

    def _kill(self, decision: Kill, now: float) -> None:
        self._machine.stop(decision.instance, decision.reason, now, kill=True)

    def _nothing_to_do(self, decision: Decision, now: float) -> None:
        """The core itself keeps a drain: no grant comes while it lasts."""

    def _impossible(self, decision: Decision, now: float) -> None:
        raise ImpossibleDecision(f"at {now:g} s: {decision}; no simulated child sleeps")

    # Clients ----------------------------------------------------------------------

    def _arrive(self, arrival: Arrival, client: int, now: float) -> None:
        self._requests = request = self._requests + 1
        ask = self._asks[request] = Ask(request, arrival, client)
        self._tally.asked += 1
        tenant = self._trace.tenants[arrival.tenant]
        self._tell(
            Requested(
                RequestId(request),
                arrival.preset,
                now,
                Kind.POST,
                tenant.name,
                tenant.weight,
                tenant.priority,
            ),
            now,
        )
        if ask.begun < 0 and not ask.over:
            if arrival.patience != FOREVER:
                self._later(now + arrival.patience, self._lose_patience, ask)
            if self._sample and not request % self._sample:
                self._ask_for_an_estimate(ask, now)
        if arrival.limit != FOREVER:
            self._later(now + arrival.limit, self._time_out, ask)

    def _ask_for_an_estimate(self, ask: Ask, now: float) -> None:
        assert self._explain is not None
        explanation = self._explain(RequestId(ask.request), now)
        if explanation is not None:
            ask.estimate = explanation.seconds

    def _answered(self, ask: Ask, now: float) -> None:
        child = ask.child
        assert child is not None
        if (ask.over and not ask.abandoned) or child.gone:
            return
        del self._asks[ask.request]
        arrival = ask.arrival
        tokens = arrival.read + arrival.answered
        if not ask.abandoned:
            ask.over = True
            self._tally.served += 1
            self._tally.tokens[arrival.tenant] += tokens
        self._machine.free(ask, child, now)
        self._tell(Released(RequestId(ask.request), tokens), now)
        if not ask.abandoned:
            self._client_returns(ask, now)

    def _lose_patience(self, ask: Ask, now: float) -> None:
        if ask.over or ask.begun >= 0:
            return
        ask.over = True
        del self._asks[ask.request]
        self._tally.gave_up += 1
        self._tally.waited(ask.arrival.preset, ask.arrival.tenant, now - ask.arrival.at)
        if ask.child is None:
            self._tell(Cancelled(RequestId(ask.request)), now)
        else:
            del ask.child.asks[ask.request]
            self._tell(Released(RequestId(ask.request), 0), now)
        self._client_returns(ask, now)

    def _time_out(self, ask: Ask, now: float) -> None:
        """A stream frees its slot at once; any other answer runs on, and nobody reads it."""
        if ask.over or ask.begun < 0:
            self._lose_patience(ask, now)
            return
        child = ask.child
        assert child is not None
        ask.over = True
        self._tally.timed_out += 1
        if ask.arrival.streamed:
            del self._asks[ask.request]
            self._machine.free(ask, child, now)
            self._tell(Released(RequestId(ask.request), ask.arrival.read), now)
        else:
            ask.abandoned = True
            self._tell(Abandoned(RequestId(ask.request)), now)
        self._client_returns(ask, now)

    def _lost(self, ask: Ask, now: float) -> None:
        """Its child has died."""
        del self._asks[ask.request]
        if ask.over:
            return
        ask.over = True
        self._tally.cut += 1
        if ask.begun < 0:
            self._tally.waited(ask.arrival.preset, ask.arrival.tenant, now - ask.arrival.at)
        self._client_returns(ask, now)

    def _client_returns(self, ask: Ask, at: float) -> None:
        if ask.client >= 0:
            client = self._trace.clients[ask.client]
            pause = between(client.think_seconds, self._randoms[ask.client])
            self._later(at + pause, self._client_asks, ask.client)

    def _client_asks(self, number: int, now: float) -> None:
        client = self._trace.clients[number]
        answered = self._randoms[number].randint(*client.answered)
        arrival = Arrival(now, client.preset, client.tenant, client.read, answered, client.patience)
        self._arrive(arrival, number, now)
