"""Why a request waits, in words with figures: each cause of a delay has its sentence."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.events import Ticked
from scheduler.core.explaining import Explanation, Holdup, QueuedPreset
from scheduler.core.planner import Planner
from scheduler.core.values import Config, Kind, Priority
from scheduler.protocol import Refused

from .standing_in import Stage, preset, staged, until

WAITS = Explanation(
    request=0,  # type: ignore[arg-type]
    preset="b",  # type: ignore[arg-type]
    tenant="blue",  # type: ignore[arg-type]
    kind=Kind.POST,
    priority=Priority.HIGH,
    waited=7.5,
    holdup=Holdup.TURN,
    turn=1,
    position=1,
    ahead=(),
    victims=(),
    drain_in=None,
    seconds=None,
)


class Telling(Planner):
    """Explains a waiter as it is told to; decides as ever."""

    told = WAITS

    def explain(self, request: Any, now: float) -> Explanation | None:
        return self.told


def queued(name: str, waiters: int) -> QueuedPreset:
    return QueuedPreset(name, waiters, 0.0, Holdup.TURN)  # type: ignore[arg-type]


async def told(stage: Stage, request: Any) -> Any:
    answer = asyncio.get_running_loop().create_future()
    stage.operations.explain(request, answer.set_result)
    return await answer


@asynccontextmanager
async def waiting_behind_a_busy_one():
    """`a` answers one request, and one for `b` waits."""
    planner = Telling(Config(models_max=1))
    async with staged(preset("a"), preset("b"), planner=planner, models_max=1) as stage:
        busy = stage.ask("a", request="first")
        await busy.run()
        waiter = stage.ask("b", request="mine", tenant="blue", priority="high")
        await until(stage.queue)
        yield stage, planner, waiter
        busy.release()
        waiter.cancel()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            {
                "holdup": Holdup.TURN,
                "turn": 3,
                "ahead": (queued("qwen", 3), queued("phi", 1)),
            },
            "it waits for its turn: 2 models are to be loaded before it"
            " ('qwen', 3 waiters; 'phi', 1 waiter)",
        ),
        (
            {
                "holdup": Holdup.TURN,
                "turn": 1201,
                "ahead": tuple(queued(name, 1) for name in "cdefg"),
            },
            "it waits for its turn: 1,200 models are to be loaded before it"
            " ('c', 1 waiter; 'd', 1 waiter; 'e', 1 waiter; and 1,197 more)",
        ),
        (
            {"holdup": Holdup.TURN, "turn": 2, "ahead": (queued("qwen", 2),)},
            "it waits for its turn: 1 model is to be loaded before it ('qwen', 2 waiters)",
        ),
        (
            {"holdup": Holdup.LOADER},
            "its model is the next to be loaded, when another load has ended",
        ),
        (
            {"holdup": Holdup.ROOM, "victims": (1,)},
            "its model is the next to be loaded;"
            " 'a' (instance 1) makes way for it after 1 answer under way",
        ),
        (
            {"holdup": Holdup.ROOM, "victims": (99,)},
            "its model is the next to be loaded; room is being made",
        ),
        (
            {"holdup": Holdup.BUSY, "victims": (1,), "drain_in": 11.6},
            "its model is the next to be loaded; every model that could make way is answering;"
            " 'a' takes no new request in 12 s at the latest",
        ),
        (
            {"holdup": Holdup.BUSY, "drain_in": 12.0},
            "its model is the next to be loaded; every model that could make way is answering;"
            " one of them takes no new request in 12 s at the latest",
        ),
        ({"holdup": Holdup.LOAD, "turn": 0}, "its model is being loaded"),
        (
            {"holdup": Holdup.SLOT, "preset": "a", "turn": 0, "position": 3, "seconds": 20.4},
            "its model is loaded and answers 1 request, as many as it may at a time;"
            " 2 requests for the same model stand before it; it is served in about 20 s",
        ),
        (
            {"holdup": Holdup.LOAD, "turn": 0, "position": 2},
            "its model is being loaded; 1 request for the same model stands before it",
        ),
    ],
)
async def test_each_delay_is_told_in_words_with_its_figures(how, words):
    async with waiting_behind_a_busy_one() as (stage, planner, waiter):
        planner.told = replace(WAITS, **how)

        assert (await told(stage, waiter.request)).why == words


async def test_a_waiter_is_explained_by_the_text_that_its_client_knows_it_by():
    async with waiting_behind_a_busy_one() as (stage, planner, _):
        planner.told = replace(
            WAITS,
            holdup=Holdup.BUSY,
            victims=(1,),
            drain_in=12.0,
            seconds=30.0,
            ahead=(queued("qwen", 3),),
        )
        explained = await told(stage, "mine")

        assert (explained.state, explained.request, explained.preset) == ("waiting", "mine", "b")
        assert (explained.tenant, explained.priority, explained.kind) == ("blue", "high", "post")
        assert (explained.holdup, explained.turn, explained.position) == ("busy", 1, 1)
        assert (explained.waited, explained.drain_in, explained.seconds) == (7.5, 12.0, 30.0)
        assert [(victim.instance, victim.preset) for victim in explained.victims] == [(1, "a")]
        assert [(entry.preset, entry.waiters) for entry in explained.ahead] == [("qwen", 3)]
        assert explained.instance is None


async def test_a_load_that_is_waited_for_is_named_with_how_far_it_is():
    planner = Telling(Config())
    async with staged(preset("a"), preset("b"), planner=planner, ready=False) as stage:
        waiter = stage.ask("a")
        await until(lambda: stage.children)
        stage.children[0].say("loading", {"value": 0.4})
        await until(lambda: stage.owner.runs[1].progress)

        planner.told = replace(WAITS, holdup=Holdup.LOADER)
        assert (await told(stage, waiter.request)).why == (
            "its model is the next to be loaded, when the load of 'a' (40%) has ended"
        )
        planner.told = replace(WAITS, holdup=Holdup.LOAD, preset="a")
        assert (await told(stage, waiter.request)).why == "its model is being loaded (40%)"
        waiter.cancel()


async def test_a_request_that_is_being_answered_is_told_with_its_instance_and_since_when():
    now = 100.0
    async with staged(preset("a"), clock=lambda: now) as stage:
        asking = stage.ask("a", request="mine", tenant="blue", age=3.0)
        await asking.run()
        now = 112.4
        explained = await told(stage, "mine")

        assert (explained.state, explained.instance, explained.answering) == (
            "answering",
            1,
            pytest.approx(12.4),
        )
        assert explained.why == "instance 1 of 'a' has been answering it for 12 s"
        assert (explained.waited, explained.tenant) == (3.0, "blue")
        assert (explained.position, explained.holdup) == (None, None)


async def test_a_look_is_told_with_its_instance_until_its_time_is_over():
    now = 100.0
    async with staged(preset("a"), clock=lambda: now) as stage:
        await stage.ask("a", kind="get", request="mine").run()
        now = 104.0
        during = await told(stage, "mine")
        now = 111.0
        stage.owner.post(Ticked())
        after = await told(stage, "mine")

    assert during.why == "instance 1 of 'a' has let it look for 4 s"
    assert (during.state, during.kind) == ("answering", "get")
    assert after.why == "its time to look at instance 1 is over"


async def test_a_request_whose_client_has_left_is_told_so():
    async with staged(preset("a")) as stage:
        asking = stage.ask("a", request="mine")
        await asking.run()
        stage.operations.leases.abandon(asking.request)
        explained = await told(stage, "mine")

        assert (explained.state, explained.instance) == ("abandoned", 1)
        assert explained.why == "its client has left; instance 1 still works on it"


async def test_a_request_whose_instance_has_ended_is_told_so():
    async with staged(preset("a")) as stage:
        await stage.ask("a", request="mine").run()
        stage.children[0].end(-11)
        await until(lambda: not stage.owner.runs)

        assert (await told(stage, "mine")).why == "instance 1, which answered it, has ended"


@pytest.mark.parametrize("end", ["release", "cancel", "desert"])
async def test_a_request_that_has_ended_is_unknown(end):
    async with staged(preset("a")) as stage:
        asking = stage.ask("a", request="mine")
        await asking.run()
        getattr(asking, end)()
        answers = [await told(stage, "mine"), await told(stage, asking.request)]

        assert all(isinstance(answer, Refused) for answer in answers)
        assert {(answer.code, answer.kind.status) for answer in answers} == {("not_found", 404)}


async def test_a_refused_request_is_unknown():
    async with staged(preset("a"), ready=False) as stage:
        asking = stage.ask("a", request="mine")
        await until(lambda: stage.children)
        stage.children[0].end(1)
        await asking.refusal()

        assert (await told(stage, "mine")).code == "not_found"


async def test_of_several_with_one_text_the_latest_is_meant_until_it_has_ended():
    async with staged(preset("a", parallel=2)) as stage:
        first = stage.ask("a", request="same", tenant="first")
        second = stage.ask("a", request="same", tenant="second")
        await first.run()
        await second.run()

        assert (await told(stage, "same")).tenant == "second"
        second.release()
        assert (await told(stage, "same")).tenant == "first"
        first.release()
        assert (await told(stage, "same")).code == "not_found"


async def test_requests_without_a_text_are_not_found_by_none():
    async with staged(preset("a")) as stage:
        await stage.ask("a").run()

        assert (await told(stage, "")).code == "not_found"


async def test_what_has_ended_takes_no_memory():
    async with staged(preset("a")) as stage:
        for number in range(5):
            asking = stage.ask("a", request=f"r{number}")
            await asking.run()
            asking.release()
            await stage.owner.caught_up()

        assert stage.owner.waiting._by_text == stage.owner.waiting._asked == {}
