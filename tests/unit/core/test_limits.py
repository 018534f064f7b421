"""Limits by example: what is told to those who are refused, and what is left."""

from __future__ import annotations

import pytest

from scheduler.core.limit_values import Limit, Measure, Moment
from scheduler.core.limits import AGAIN_SECONDS, LAST_WORD_SECONDS, Limits
from scheduler.core.values import RequestId

NOON = 1_780_272_000.0 + 12 * 3600  # 2026-06-01 12:00 UTC
DAY = 86_400.0


class Desk:
    """One row of limits, and those who come to it."""

    def __init__(self, **figures: int) -> None:
        self.row = Limit("row", **figures)
        self.limits = Limits()
        self.now, self.wall, self.last = 1000.0, NOON, 0

    def comes(self, tokens: int = 0, id: str = ""):
        self.last += 1
        moment = Moment(self.now, self.wall)
        return self.limits.come_in(
            RequestId(self.last), [self.row], moment, id=id or f"id-{self.last}", tokens=tokens
        )

    def ends(self, request: int, tokens: int | None = None):
        return self.limits.settle(RequestId(request), tokens, self.now)

    def waits(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds

    def left(self):
        return self.limits.left([self.row], Moment(self.now, self.wall))


def test_the_wait_that_is_told_is_the_exact_one():
    desk = Desk(requests=2)
    desk.comes()
    desk.waits(20)
    desk.comes()
    desk.waits(5)

    short = desk.comes()
    assert short is not None
    assert (short.measure, short.seconds) == (Measure.REQUESTS, 35)

    desk.waits(34.99)
    assert desk.comes() is not None
    desk.waits(0.01)
    assert desk.comes() is None
    assert desk.comes() is not None


@pytest.mark.parametrize("figures", [{"requests": 1}, {"tokens": 10}])
def test_nobody_waits_for_nothing_however_a_minute_is_rounded(figures):
    desk = Desk(**figures)
    desk.now = 19.8
    assert desk.comes(tokens=10) is None
    desk.ends(1)
    desk.now = 79.8  # 19.8 > 79.8 - 60, and 19.8 + 60 - 79.8 is 0

    assert desk.comes(tokens=10) is None


def test_those_who_are_refused_count_nowhere():
    desk = Desk(requests=1)
    desk.comes()
    for _ in range(50):
        assert desk.comes() is not None
    desk.waits(60)

    assert desk.comes() is None


def test_of_tokens_as_many_are_waited_for_as_are_missing():
    desk = Desk(tokens=100)
    for request, tokens in enumerate((30, 40, 20), start=1):
        assert desk.comes(tokens) is None
        desk.ends(request, tokens)
        desk.waits(10)

    short = desk.comes(40)

    assert short is not None
    assert short.seconds == 30
    short = desk.comes(50)
    assert short is not None
    assert short.seconds == 40


def test_what_others_hold_is_waited_for_without_a_time():
    desk = Desk(tokens=100)
    desk.comes(80)

    short = desk.comes(30)
    assert short is not None
    assert short.under_way

    desk.ends(1, 20)
    assert desk.comes(30) is None


def test_a_reservation_holds_as_long_as_its_answer_takes():
    desk = Desk(tokens=100)
    desk.comes(80)
    desk.waits(600)
    assert desk.comes(30) is not None

    desk.ends(1, 80)
    assert desk.comes(30) is None  # it came in ten minutes ago


def test_what_was_used_beyond_the_reservation_counts_when_it_is_known():
    desk = Desk(tokens=100)
    desk.comes(10)
    desk.waits(600)
    desk.ends(1, 110)
    assert desk.comes(1) is not None

    desk.waits(60)
    assert desk.comes(1) is None


@pytest.mark.parametrize("figure", ["requests", "concurrent", "tokens", "day", "month"])
def test_nothing_is_allowed_by_a_limit_of_zero(figure):
    short = Desk(**{figure: 0}).comes()

    assert short is not None
    assert short.most == 0
    assert short.seconds is None


@pytest.mark.parametrize("figure", ["tokens", "day", "month"])
def test_who_can_never_fit_is_told_so(figure):
    desk = Desk(**{figure: 100})
    short = desk.comes(101)

    assert short is not None
    assert short.seconds is None
    assert desk.comes(100) is None


def test_a_day_ends_at_midnight_in_utc_and_a_month_with_its_last_day():
    desk = Desk(day=100)
    desk.comes(100)
    desk.ends(1, 100)
    short = desk.comes(1)
    assert short is not None
    assert short.seconds == DAY / 2
    desk.waits(DAY / 2)
    assert desk.comes(1) is None

    desk = Desk(month=100)
    desk.comes(100)
    desk.ends(1, 100)
    short = desk.comes(1)
    assert short is not None
    assert short.seconds == 29.5 * DAY
    desk.waits(29.5 * DAY)
    assert desk.comes(1) is None


def test_a_budget_that_others_only_hold_is_not_exhausted():
    desk = Desk(day=100)
    desk.comes(80)
    short = desk.comes(30)
    assert short is not None
    assert short.under_way

    desk.ends(1, 80)
    short = desk.comes(30)
    assert short is not None
    assert not short.under_way


def test_a_clock_that_jumps_to_and_fro_gives_nothing_twice():
    desk = Desk(day=100)
    desk.comes(100)
    desk.ends(1, 100)
    for jump in (-3600, 7200, -DAY, DAY, -3600):
        desk.wall += jump
        if Moment(0, desk.wall).day == "2026-06-01":
            assert desk.comes(1) is not None

    desk.wall = NOON + DAY
    assert desk.comes(100) is None
    desk.ends(desk.last, 100)
    for _ in range(20):
        desk.wall = NOON
        assert desk.comes(1) is not None
        desk.wall = NOON + DAY
        assert desk.comes(1) is not None


def test_an_answer_counts_on_the_day_on_which_it_was_asked_for():
    desk = Desk(day=100)
    desk.comes(60)
    desk.waits(DAY)
    charged = desk.ends(1, 60)

    assert charged is not None
    assert charged.day == "2026-06-01"
    assert desk.comes(100) is None


def test_a_request_that_is_tried_again_goes_on_with_what_it_holds():
    desk = Desk(requests=1, concurrent=1, tokens=100)
    desk.comes(100, id="mine")
    desk.limits.fail(RequestId(1), desk.now)
    assert desk.comes(1) is not None  # the place is kept

    assert desk.comes(100, id="mine") is None
    assert desk.ends(desk.last, 100) is None  # there is no budget
    assert desk.limits.counted("row", Moment(desk.now, desk.wall)).requests == 1


def test_the_place_of_one_who_does_not_come_again_is_kept_for_seconds():
    desk = Desk(requests=1, concurrent=1, tokens=100, day=100)
    desk.comes(100)
    desk.limits.fail(RequestId(1), desk.now)
    desk.waits(AGAIN_SECONDS - 0.1)
    assert desk.limits.pass_time(desk.now) == []
    assert desk.comes(100) is not None

    desk.waits(0.2)
    assert desk.limits.pass_time(desk.now) == []
    assert desk.comes(100) is None


def test_nobody_pays_for_a_try_that_failed_at_last():
    desk = Desk(requests=1, concurrent=1, day=100)
    desk.comes(100, id="mine")
    desk.limits.fail(RequestId(1), desk.now)
    desk.limits.give_up("mine")

    assert desk.comes(100) is None


def test_of_a_lost_lease_its_holder_has_the_last_word():
    desk = Desk(day=100)
    desk.comes(50)
    desk.limits.lose(RequestId(1), desk.now)
    charged = desk.ends(1, 7)
    assert charged is not None
    assert charged.tokens == 7

    desk.comes(50)
    desk.limits.lose(RequestId(2), desk.now)
    desk.waits(LAST_WORD_SECONDS)
    [charged] = desk.limits.pass_time(desk.now)
    assert charged.tokens == 50
    assert desk.ends(2, 7) is None


def test_what_is_left_is_told_of_the_limit_of_which_least_is_left():
    desk = Desk(requests=5, tokens=1000, day=300)
    desk.comes(100)
    desk.waits(6)
    requests, tokens = desk.left()

    assert (requests.most, requests.left, requests.seconds) == (5, 4, 54)
    assert (tokens.most, tokens.left, tokens.seconds) == (300, 200, DAY / 2 - 6)


def test_what_an_earlier_life_has_charged_counts():
    desk = Desk(day=100, month=1000)
    desk.limits.remember("row", "2026-06-01", 90)
    desk.limits.remember("row", "2026-06", 90)

    assert desk.comes(11) is not None
    assert desk.comes(10) is None


def test_what_nobody_asks_for_any_more_takes_no_memory():
    desk = Desk(requests=5, tokens=100)
    desk.comes(10)
    desk.ends(1, 10)
    desk.limits.tidy(desk.now)
    assert desk.limits.counted("row", Moment(desk.now, desk.wall)) is not None
    desk.waits(60)
    desk.limits.tidy(desk.now)

    assert desk.limits.counted("row", Moment(desk.now, desk.wall)) is None
