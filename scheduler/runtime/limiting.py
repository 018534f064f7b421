"""Limits where leases are granted: who is let in, and what each end of a request means to them.

Everything here is called in the owner's turn. A request without limits costs a look at an empty
list.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from models_registry.launch import LaunchSpec
from scheduler.core.decisions import Decision, Reject, Revoke
from scheduler.core.events import Cancelled, Event, Released, Ticked
from scheduler.core.limit_values import Charged, Limit, Moment
from scheduler.core.limits import Counted as CountedNow
from scheduler.core.limits import Limits
from scheduler.core.values import RequestId
from scheduler.protocol import Acquire, Counted, CountedState, CounterState, Left, Rate
from scheduler.protocol import Limit as LimitTold

from .answer_cap import answer_cap
from .limit_refusals import budget_unavailable, limited

if TYPE_CHECKING:
    from .budget_journal import BudgetJournal
    from .offer import Offer
    from .waiting import Waiting

ANSWER_TOKENS = 1024
"""Reserved for an answer of which nobody says how long it may be."""
TIDY_EVERY_SECONDS = 60.0


class Limiting:
    def __init__(
        self,
        clock: Callable[[], float],
        *,
        wall: Callable[[], float] = time.time,
        journal: BudgetJournal | None = None,
        answer_tokens: int = ANSWER_TOKENS,
    ) -> None:
        self._limits = Limits()
        self._clock = clock
        self._wall = wall
        self._journal = journal
        self._answer_tokens = answer_tokens
        self._tidy_at = 0.0
        self._active = False
        if journal is not None:
            journal.open(self._limits.remember)

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()

    def come_in(
        self, request: RequestId, asked: Acquire, spec: LaunchSpec | None, offer: Offer
    ) -> None:
        """It counts from now on, by those of its limits that concern the model. Raises Refused."""
        if not asked.limits or asked.kind == "get":
            return  # a look takes no slot, and uses nothing
        limits = [_limit(each) for each in asked.limits if _concerns(each, spec, offer)]
        if not limits:
            return
        has_budget = any(limit.has_budget for limit in limits)
        if has_budget and self._journal is not None and not self._journal.ready():
            raise budget_unavailable()
        self._active = True
        moment = self._moment()
        short = self._limits.come_in(
            request, limits, moment, id=asked.charge, tokens=self._reserved(asked, spec)
        )
        if short is not None:
            raise limited(short, self._rate(limits, moment))

    def rate(self, request: RequestId) -> Rate | None:
        """What is left of its limits; None for one that has none."""
        if not self._active or not (limits := self._limits.limits_of(request)):
            return None
        return self._rate(limits, self._moment())

    def counted(self, asked: Counted) -> CountedState:
        moment = self._moment()
        found = ((each, self._limits.counted(each, moment)) for each in asked.counters)
        return CountedState([_state(name, now) for name, now in found if now is not None])

    # How it ends --------------------------------------------------------------------------------

    def refund(self, request: RequestId) -> None:
        """It is refused after all."""
        self._limits.refund(request)

    def fail(self, request: RequestId) -> None:
        """It got nothing, and may be asked for again."""
        self._limits.fail(request, self._clock())

    def forgo(self, charge: str) -> None:
        self._limits.give_up(charge)

    def after_step(self, event: Event, decisions: Sequence[Decision], waiting: Waiting) -> None:
        """What the core was told, and has decided, may have ended some."""
        if not self._active:
            return
        match event:
            case Released(request, tokens):
                self._keep(self._limits.settle(request, tokens, self._clock()))
            case Cancelled(request):
                self._limits.leave(request)
            case Ticked():
                self._pass_time()
        for decision in decisions:
            if isinstance(decision, Reject):
                self._limits.refund(decision.request)
            elif isinstance(decision, Revoke):
                self._revoked(decision.request, waiting)

    def _revoked(self, request: RequestId, waiting: Waiting) -> None:
        """Whoever holds the lease will say what it has used; of one whose holder has gone, nobody
        will."""
        if waiting.get(request) is not None:
            self._limits.lose(request, self._clock())
        else:
            self._keep(self._limits.settle(request, None, self._clock()))

    def _pass_time(self) -> None:
        now = self._clock()
        if self._limits.waits:
            for charged in self._limits.pass_time(now):
                self._keep(charged)
        if now >= self._tidy_at:
            self._limits.tidy(now)
            self._tidy_at = now + TIDY_EVERY_SECONDS

    def _keep(self, charged: Charged | None) -> None:
        if charged is not None and self._journal is not None:
            self._journal.write(charged)

    def _reserved(self, asked: Acquire, spec: LaunchSpec | None) -> int:
        if not any(each.counts_tokens for each in asked.limits):
            return 0
        cap = answer_cap(asked.cap, spec)
        return asked.prompt + (self._answer_tokens if cap is None else cap)

    def _rate(self, limits: Sequence[Limit], moment: Moment) -> Rate:
        requests, tokens = self._limits.left(limits, moment)
        return Rate(
            None if requests is None else Left(requests.most, requests.left, requests.seconds),
            None if tokens is None else Left(tokens.most, tokens.left, tokens.seconds),
        )

    def _moment(self) -> Moment:
        return Moment(self._clock(), self._wall())


def _limit(told: LimitTold) -> Limit:
    return Limit(
        told.counter,
        told.whose,
        told.model,
        requests=told.requests,
        tokens=told.tokens,
        concurrent=told.concurrent,
        day=told.day,
        month=told.month,
    )


def _state(counter: str, is_now: CountedNow) -> CounterState:
    return CounterState(
        counter,
        is_now.requests,
        is_now.tokens,
        is_now.concurrent,
        is_now.day,
        is_now.month,
        is_now.day_held,
        is_now.month_held,
        is_now.requests_reset,
        is_now.tokens_reset,
    )


def _concerns(limit: LimitTold, spec: LaunchSpec | None, offer: Offer) -> bool:
    """A row may name a model by a name that it had before, or by an alias."""
    if not limit.model:
        return True
    meant = offer.resolve(limit.model)
    return spec is not None and meant is not None and meant.preset == spec.preset
