"""What may happen to limits, each as one method that chance decides on; the referee judges it."""

from __future__ import annotations

from random import Random

from scheduler.core.limit_values import WINDOW_SECONDS, Limit, Moment
from scheduler.core.limits import AGAIN_SECONDS, Counted, Limits
from scheduler.core.values import RequestId

from .limits_referee import CameIn, Referee

DAY = 86_400.0
COUNTERS = ("key", "team")
NOTHING = Counted(0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)
STEPS = (0.0, 1.0, 9.9, 10.0, 25.0, 30.0, 50.0, 59.9, 60.0)


class LimitsWorld:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.limits, self.referee = Limits(), Referee()
        self.now, self.wall = 0.0, 20_000 * DAY + DAY - 100
        self.last = 0
        self.rows: dict[str, Limit] = {}
        self.left: list[CameIn] = []
        self.rows_are_edited()

    @property
    def moment(self) -> Moment:
        return Moment(self.now, self.wall)

    # What people and clients do

    def rows_are_edited(self) -> None:
        """A figure changes, and is counted from its first moment on or has been all the time: what
        no row limits is not counted."""
        for counter in COUNTERS:
            before = self.rows.get(counter)
            self.rows[counter] = Limit(
                counter,
                requests=self._figure(before and before.requests, 4),
                concurrent=self._figure(before and before.concurrent, 4),
                tokens=self._figure(before and before.tokens, 200),
                day=self._figure(before and before.day, 300),
                month=self._figure(before and before.month, 400),
            )

    def _figure(self, before: int | None, most: int) -> int | None:
        first = self.last == 0
        if not first and before is None:
            return None
        if first and self.chance.random() < 0.4:
            return None
        return self.chance.choice((0, most // 2, most, most, most))

    def requests_come(self) -> None:
        counters = self.chance.choice((COUNTERS, COUNTERS[:1], COUNTERS[1:]))
        for _ in range(self.chance.randrange(1, 5)):
            rows = tuple(self.rows[each] for each in counters)
            self.last += 1
            self._comes(f"id-{self.last}", rows, self.chance.choice((0, 1, 30, 60, 101)))

    def _comes(
        self, id: str, rows: tuple[Limit, ...], tokens: int, *, counted: bool = False
    ) -> None:
        """`counted`: as one that came in, already."""
        request = RequestId(self.last)
        allowed = self.referee.allows(rows, tokens, self.moment, requests=0 if counted else 1)
        short = self.limits.come_in(request, rows, self.moment, id=id, tokens=tokens)
        assert (short is None) == allowed, short
        if short is None:
            came = CameIn(id, rows, tokens, self.now, self.moment.day)
            came.counts_as_request = not counted
            self.referee.history.append(came)
            self.referee.under_way[request] = came
        elif short.seconds is None:
            assert short.most == 0 or short.asked > short.most
        elif not short.under_way:
            assert short.seconds > 0

    def who_failed_comes_again(self) -> None:
        """However full it is by now."""
        if self.referee.between_tries:
            id, came = self.referee.between_tries.popitem()
            self.last += 1
            request = RequestId(self.last)
            assert self.limits.come_in(request, came.limits, self.moment, id=id, tokens=7) is None
            self.referee.under_way[request] = came

    # How it ends

    def an_answer_ends(self) -> None:
        if (request := self._one()) is None:
            return
        came = self.referee.under_way.pop(request)
        tokens = self.chance.choice((None, 0, 1, 20, 90, 150))
        charged = self.limits.settle(request, tokens, self.now)
        used = came.reserved if tokens is None else tokens
        came.ended, came.used = self.now, min(used, came.reserved)
        came.beyond = used - came.used
        with_budget = {row.counter for row in came.limits if row.has_budget}
        assert (charged is not None) == bool(with_budget and used)
        if charged is not None:
            assert (charged.day, charged.tokens) == (came.day, used)
            assert set(charged.counters) == with_budget

    def its_child_dies_and_nobody_says_what_it_used(self) -> None:
        if (request := self._one()) is not None:
            self.limits.lose(request, self.now - 100.0)
            self.limits.pass_time(self.now)
            came = self.referee.under_way.pop(request)
            came.ended, came.used = self.now, came.reserved
            self._give_up_all()

    def a_waiter_leaves(self) -> None:
        if (request := self._one()) is not None:
            self.limits.leave(request)
            came = self.referee.under_way.pop(request)
            came.ended = self.now
            self.left.append(came)

    def who_left_comes_again(self) -> None:
        """Its web process lost its connection to the scheduler, and asks for the same again."""
        if not self.left:
            return
        came = self.left.pop()
        counted = came.counts_as_request and came.began + WINDOW_SECONDS - self.now > 0
        self.last += 1
        self._comes(came.id, came.limits, came.reserved, counted=counted)

    def a_waiter_is_refused(self) -> None:
        if (request := self._one()) is not None:
            self.limits.refund(request)
            came = self.referee.under_way.pop(request)
            self._has_not_come_in(came)

    def a_try_fails(self) -> None:
        if (request := self._one()) is not None:
            self.limits.fail(request, self.now)
            came = self.referee.under_way.pop(request)
            self.referee.between_tries[came.id] = came

    def who_failed_does_not_come_again(self) -> None:
        for id in self.referee.between_tries:
            self.limits.give_up(id)
        self._end_tries()

    def what_has_ended_ends_again(self) -> None:
        nobody = RequestId(-1)
        assert self.limits.settle(nobody, 100, self.now) is None
        self.limits.leave(nobody)
        self.limits.refund(nobody)
        self.limits.fail(nobody, self.now)
        self.limits.lose(nobody, self.now)
        self.limits.give_up("nobody")

    # What time does

    def time_passes(self) -> None:
        seconds = self.chance.choice(STEPS)
        self._give_up_all()
        self.now += seconds
        self.wall += seconds

    def the_wall_clock_jumps(self) -> None:
        self.wall += self.chance.choice((-DAY, -3600, 3600, DAY, 31 * DAY))

    def the_counters_are_tidied(self) -> None:
        self.limits.tidy(self.now)

    # What must hold

    def check(self) -> None:
        for counter, row in self.rows.items():
            told = self.limits.counted(counter, self.moment) or NOTHING
            assert told.concurrent == self.referee.concurrent(counter)
            if row.requests is not None:
                assert told.requests == self.referee.requests(counter, self.now)
            if row.tokens is not None:
                assert told.tokens == self.referee.tokens(counter, self.now)
            requests, tokens = self.limits.left((row,), self.moment)
            assert (requests is None) == (row.requests is None)
            if requests is not None and row.requests is not None:
                used = self.referee.requests(counter, self.now)
                assert requests.left == max(0, row.requests - used)
                assert requests.seconds == told.requests_reset
            if tokens is not None:
                assert 0 <= tokens.left <= tokens.most
                assert tokens.left == _least_left(row, told)

    def _one(self) -> RequestId | None:
        under_way = sorted(self.referee.under_way)
        return RequestId(self.chance.choice(under_way)) if under_way else None

    def _give_up_all(self) -> None:
        """Who failed has come again by then, or does not."""
        self.limits.pass_time(self.now + AGAIN_SECONDS)
        self._end_tries()

    def _has_not_come_in(self, came: CameIn) -> None:
        """Nor have its earlier tries."""
        came.ended = self.now
        for each in self.referee.history:
            if each.id == came.id:
                each.counts_as_request = False

    def _end_tries(self) -> None:
        for came in self.referee.between_tries.values():
            self._has_not_come_in(came)
        self.referee.between_tries.clear()


HAPPENINGS = (
    *[LimitsWorld.requests_come] * 6,
    *[LimitsWorld.an_answer_ends] * 4,
    *[LimitsWorld.time_passes] * 3,
    LimitsWorld.a_waiter_leaves,
    LimitsWorld.who_left_comes_again,
    LimitsWorld.a_waiter_is_refused,
    LimitsWorld.a_try_fails,
    LimitsWorld.a_try_fails,
    LimitsWorld.who_failed_comes_again,
    LimitsWorld.who_failed_comes_again,
    LimitsWorld.who_failed_does_not_come_again,
    LimitsWorld.its_child_dies_and_nobody_says_what_it_used,
    LimitsWorld.what_has_ended_ends_again,
    LimitsWorld.rows_are_edited,
    LimitsWorld.the_wall_clock_jumps,
    LimitsWorld.the_counters_are_tidied,
)


def _least_left(row: Limit, told: Counted) -> int:
    """Of its tokens, by what is told of its counter."""
    budgets = ((row.day, told.day + told.day_held), (row.month, told.month + told.month_held))
    known = ((row.tokens, told.tokens), *budgets)
    return min(max(0, most - used) for most, used in known if most is not None)
