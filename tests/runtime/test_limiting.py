"""Limits where leases are granted: what each end of a request gives back, and what it costs."""

from __future__ import annotations

import asyncio
import time

import pytest

from scheduler.protocol import Counted, Limit, Refused
from scheduler.runtime.budget_journal import BudgetJournal
from scheduler.runtime.limiting import Limiting

from .standing_in import Asking, Stage, preset, staged, until


def row(counter: str = "k", **figures: object) -> Limit:
    return Limit(counter, **figures)


def counts(stage: Stage, counter: str = "k") -> tuple[int, int, int, int]:
    """Requests, tokens of the minute, requests at once, tokens of the day."""
    told = stage.owner.limiting.counted(Counted(1, [counter])).counters
    return tuple(
        sum(getattr(each, name) for each in told)
        for name in ("requests", "tokens", "concurrent", "day")
    )


async def held(stage: Stage, *limits: Limit, name: str = "a", **fields: object) -> Asking:
    asking = stage.ask(name, limits=limits, **fields)
    await asking.run()
    return asking


async def refused(stage: Stage, *limits: Limit, name: str = "a", **fields: object) -> Refused:
    return await stage.ask(name, limits=limits, **fields).refusal()


async def test_who_runs_into_a_limit_is_refused_at_once_and_waits_for_nothing():
    async with staged(preset("a", parallel=4)) as stage:
        await held(stage, row(requests=1))
        refusal = await refused(stage, row(requests=1))

        assert refusal.code == "rate_limit_exceeded"
        assert "your key may use 1 request a minute" in refusal.message
        assert refusal.retry_after_seconds is not None
        assert 59 < refusal.retry_after_seconds <= 60
        assert refusal.rate is not None
        assert refusal.rate.requests is not None
        assert (refusal.rate.requests.limit, refusal.rate.requests.left) == (1, 0)
        assert stage.queue() == []


async def test_who_waits_counts_as_under_way_and_who_leaves_does_not():
    async with staged(preset("a")) as stage:
        limit = row(concurrent=2)
        first = await held(stage, limit)
        waiting = stage.ask("a", limits=[limit])
        refusal = await refused(stage, limit)
        assert refusal.code == "concurrency_limit_exceeded"

        waiting.cancel()
        await stage.owner.caught_up()
        again = stage.ask("a", limits=[limit])
        first.release()
        await again.run()

        assert counts(stage)[2] == 1


async def test_a_thousand_at_once_get_exactly_what_the_limit_allows():
    async with staged(preset("a", parallel=8)) as stage:
        asked = [stage.ask("a", limits=[row(requests=100, concurrent=300)]) for _ in range(1000)]
        await stage.owner.caught_up()
        answered = [each for each in asked if each.answer.done()]
        codes = {a.answer.result().code for a in answered if isinstance(a.answer.result(), Refused)}

        assert codes == {"rate_limit_exceeded"}
        assert counts(stage)[0] == 100
        for each in asked:
            each.cancel()
        await stage.owner.caught_up()
        assert counts(stage)[2] == 0


async def test_an_answer_is_settled_by_what_it_used():
    async with staged(preset("a", parallel=4)) as stage:
        limit = row(tokens=1000)
        asking = await held(stage, limit, prompt=300, cap=500)
        assert counts(stage)[1] == 800
        assert (await refused(stage, limit, prompt=201, cap=0)).code == "rate_limit_exceeded"

        asking.release(tokens=120)
        await stage.owner.caught_up()
        assert counts(stage)[1] == 120
        await held(stage, limit, prompt=880, cap=0)


async def test_of_which_nobody_says_what_it_used_all_that_it_had_reserved_counts():
    async with staged(preset("a", parallel=4)) as stage:
        asking = await held(stage, row(tokens=1000), prompt=300, cap=500)
        asking.release()
        await stage.owner.caught_up()

        assert counts(stage)[:3] == (0, 800, 0)


@pytest.mark.parametrize(
    ("spec", "cap", "reserved"),
    [
        (preset("a"), None, 1024),
        (preset("a"), 7, 7),
        (preset("a", argv=("--n-predict", "99")), None, 99),
        (preset("a", argv=("--n-predict", "-1")), None, 1024),
        (preset("a", argv=("--n-predict", "99")), 7, 7),
    ],
)
async def test_what_an_answer_may_take_is_what_the_request_its_preset_or_the_setting_says(
    spec, cap, reserved
):
    async with staged(spec) as stage:
        await held(stage, row(tokens=10_000), prompt=10, cap=cap)

        assert counts(stage)[1] == 10 + reserved


async def test_an_abandoned_lease_counts_until_its_slot_is_idle():
    async with staged(preset("a")) as stage:
        stage.engine.busy = 1
        asking = await held(stage, row(concurrent=1, tokens=500), prompt=1, cap=99)
        asking.desert()
        await until(lambda: stage.engine.asked)
        assert (await refused(stage, row(concurrent=1))).code == "concurrency_limit_exceeded"

        stage.engine.busy = 0
        await until(lambda: counts(stage)[2] == 0)
        assert counts(stage)[1] == 100  # nobody says what it has used


async def test_who_is_asked_for_again_after_a_crash_is_counted_once():
    async with staged(preset("a")) as stage:
        limit = row(requests=1, concurrent=1, day=1000)
        first = await held(stage, limit, charge="mine", prompt=10, cap=90)
        stage.children[0].end(-11)
        first.release(died=True, unanswered=True)
        await until(lambda: not stage.owner.runs)
        assert (await refused(stage, limit, charge="x", cap=1)).code == "rate_limit_exceeded"

        again = await held(stage, limit, charge="mine", prompt=10, cap=90)
        again.release(tokens=42)
        await stage.owner.caught_up()

        assert counts(stage) == (1, 0, 0, 42)


async def test_who_does_not_come_again_has_paid_nothing():
    async with staged(preset("a")) as stage:
        limit = row(requests=1, concurrent=1, day=1000)
        first = await held(stage, limit, charge="mine", prompt=10, cap=90)
        first.release(died=True, unanswered=True)
        stage.children[0].end(-11)
        await until(lambda: not stage.owner.runs)
        await stage.owner.caught_up()
        gone = asyncio.Event()
        stage.operations.forgo("mine", gone.set)
        await gone.wait()

        assert counts(stage) == (0, 0, 0, 0)


async def test_who_is_refused_after_he_came_in_has_not_come_in():
    async with staged(preset("a"), ready=False) as stage:
        asking = stage.ask("a", limits=[row(requests=1, concurrent=1)])
        await until(lambda: stage.children)
        stage.children[0].end(1)
        assert (await asking.refusal()).code == "model_load_failed"
        await stage.owner.caught_up()

        assert counts(stage)[::2] == (0, 0)


async def test_a_name_that_is_not_there_counts_nowhere():
    async with staged(preset("a")) as stage:
        assert (await refused(stage, row(requests=1), name="nope")).code == "model_not_found"
        await held(stage, row(requests=1))


async def test_a_look_is_no_request():
    async with staged(preset("a")) as stage:
        await held(stage, row(requests=1))
        look = stage.ask("a", kind="get", limits=[row(requests=1)])

        await look.run()
        assert counts(stage)[0] == 1


async def test_a_limit_of_a_model_concerns_that_model_by_whatever_name():
    async with staged(preset("a", parallel=4, aliases=("mine",)), preset("b")) as stage:
        limit = row(requests=1, model="mine", whose="everybody")
        await held(stage, limit, name="b")
        await held(stage, limit)
        refusal = await refused(stage, limit)

        assert "all together may use 1 request a minute of the model 'mine'" in refusal.message


async def test_the_words_name_the_limit_and_never_another_caller():
    async with staged(preset("a", parallel=4)) as stage:
        never = await refused(stage, row(tokens=100, whose="team"), prompt=500, cap=1)
        nothing = await refused(stage, row(requests=0))
        await held(stage, row("d", day=100), prompt=60, cap=0)
        waits = await refused(stage, row("d", day=100), prompt=60, cap=0)

        assert never.code == nothing.code == "request_exceeds_limit"
        assert "your team may use 100 tokens a minute" in never.message
        assert "this request alone may use 501" in never.message
        assert "nothing is allowed" in nothing.message
        assert waits.code == "rate_limit_exceeded"
        assert "when one of them has ended" in waits.message


async def test_a_budget_outlives_the_scheduler(tmp_path):
    path = tmp_path / "budgets.jsonl"
    for expected in (0, 400, 800):
        limiting = Limiting(time.monotonic, journal=BudgetJournal(path))
        async with staged(preset("a"), limiting=limiting) as stage:
            limit = row(day=1000)
            asking = await held(stage, limit, prompt=100, cap=100)
            asking.release(tokens=400)
            await stage.owner.caught_up()
            assert counts(stage)[3] == expected + 400

    limiting = Limiting(time.monotonic, journal=BudgetJournal(path))
    async with staged(preset("a"), limiting=limiting) as stage:
        refusal = await refused(stage, row(day=1000), prompt=1, cap=0)

        assert refusal.code == "budget_exhausted"
        assert not refusal.kind.retry
        assert refusal.retry_after_seconds is not None
        assert refusal.retry_after_seconds <= 86_400


async def test_while_budgets_cannot_be_written_nobody_with_one_is_let_in(tmp_path):
    journal = BudgetJournal(tmp_path / "away" / "budgets.jsonl")
    limiting = Limiting(time.monotonic, journal=journal)
    async with staged(preset("a", parallel=2), limiting=limiting) as stage:
        assert (await refused(stage, row(day=1000))).code == "budget_unavailable"
        await held(stage, row(requests=5))

        (tmp_path / "away").mkdir()
        await held(stage, row("d", day=10_000))


async def test_what_is_left_is_told_with_the_grant():
    async with staged(preset("a", parallel=4)) as stage:
        asking = await held(stage, row(requests=5), row("t", whose="team", requests=3, tokens=5000))
        rate = stage.owner.limiting.rate(asking.request)

        assert rate is not None
        assert rate.requests is not None
        assert rate.tokens is not None
        assert (rate.requests.limit, rate.requests.left) == (3, 2)
        assert (rate.tokens.limit, rate.tokens.left) == (5000, 5000 - 1024)
        assert stage.owner.limiting.rate((await held(stage)).request) is None
