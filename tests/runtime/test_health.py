"""Children that do not answer any more: found by their silence, and by nothing else."""

from __future__ import annotations

import asyncio
import time

import pytest

from scheduler.core.decisions import AskExit, Kill, Reason
from scheduler.core.events import Silent
from scheduler.core.values import InstanceId
from scheduler.protocol import Unload
from scheduler.runtime.health import HealthRule, HealthWatch
from scheduler.runtime.record import Gone

from .standing_in import preset, staged, until
from .test_owner import Script, start

OFTEN = HealthRule(every_seconds=0.02, tries=3)


class World:
    """What a watch sees of a child."""

    def __init__(self, rule: HealthRule = OFTEN, answer=None) -> None:
        self.answer = answer or self.next_answer
        self.answers: list[bool | None] = []
        self.hangs_for_ever = False
        self.asked = 0
        self.looked = 0
        self.should_answer = True
        self.lines = 0
        self.hangs: list[int] = []
        """How often it had been asked by then."""
        self.watch = HealthWatch(
            rule,
            ask=self.ask,
            should_answer=self.look,
            lines=lambda: self.lines,
            hangs=self.hang,
        )

    async def ask(self) -> bool | None:
        self.asked += 1
        return await self.answer()

    async def next_answer(self) -> bool | None:
        if self.hangs_for_ever:
            await asyncio.Event().wait()
        return self.answers.pop(0) if self.answers else True

    def look(self) -> bool:
        self.looked += 1
        return self.should_answer

    def hang(self) -> None:
        self.hangs.append(self.asked)

    async def run_until(self, condition) -> None:
        task = asyncio.create_task(self.watch.run())
        async with asyncio.timeout(10):
            await until(condition)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()


async def test_so_many_silent_questions_in_a_row_are_a_hang():
    world = World()
    world.hangs_for_ever = True
    await world.run_until(lambda: world.hangs)

    assert world.hangs == [3]


async def test_an_answer_in_between_starts_the_count_anew():
    world = World()
    world.answers = [False, False, True, False, False, True]
    await world.run_until(lambda: world.asked > 7)

    assert world.hangs == []


async def test_a_child_that_is_still_silent_is_told_again():
    world = World()
    world.hangs_for_ever = True
    await world.run_until(lambda: len(world.hangs) == 2)

    assert world.hangs == [3, 6]


async def test_our_own_want_of_descriptors_is_not_the_childs_silence():
    world = World()
    world.answers = [None] * 9
    await world.run_until(lambda: world.asked > 9)

    assert world.hangs == []


async def test_our_own_delay_is_not_the_childs_silence():
    async def answer() -> bool:
        for _ in range(8):  # an answer takes a few turns of the loop, each of them late
            time.sleep(0.15)  # noqa: ASYNC251 - what is tried is a loop that stands still
            await asyncio.sleep(0)
        return True

    world = World(HealthRule(every_seconds=0.2, tries=1), answer)
    await world.run_until(lambda: world.asked > 2)

    assert world.hangs == []


async def test_one_that_should_not_answer_is_not_asked():
    world = World()
    world.should_answer = False
    world.hangs_for_ever = True
    await world.run_until(lambda: world.looked > 5)

    assert (world.asked, world.hangs) == (0, [])


async def test_one_that_begins_to_load_while_it_is_asked_has_not_been_silent():
    async def answer() -> bool:
        world.should_answer = False
        return False

    world = World(HealthRule(every_seconds=0.02, tries=1), answer)
    await world.run_until(lambda: world.looked > 2)

    assert world.hangs == []


async def test_what_a_child_prints_is_a_sign_of_life():
    world = World(HealthRule(every_seconds=0.05, tries=1))
    world.hangs_for_ever = True
    task = asyncio.create_task(world.watch.run())
    async with asyncio.timeout(10):
        while world.asked < 4:
            await asyncio.sleep(0.001)
            world.lines += 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert world.hangs == []


async def test_with_no_time_between_questions_nothing_is_asked():
    world = World(HealthRule(every_seconds=0.0))
    await world.watch.run()

    assert world.asked == 0


async def test_the_core_is_told_of_a_child_that_is_silent():
    script = Script(Requested=[start()], Silent=[Kill(InstanceId(1), Reason.HUNG)])
    async with staged(planner=script, health=OFTEN) as stage:
        stage.engine.alive.clear()
        stage.ask("a")
        await until(lambda: not stage.owner.runs and script.events(Silent))

        assert script.events(Silent) == [Silent(InstanceId(1))]
        assert stage.children[0].killed == 1


@pytest.mark.parametrize("state", ["loading", None])
async def test_a_child_that_loads_is_not_asked(state):
    script = Script(Requested=[start()])
    async with staged(planner=script, health=OFTEN, ready=False) as stage:
        stage.engine.alive.clear()
        stage.ask("a")
        await until(lambda: stage.children)
        if state:
            stage.children[0].say(state)
        await asyncio.sleep(OFTEN.every_seconds * OFTEN.tries * 2)

        assert stage.engine.health_asked == 0


async def test_a_child_that_wakes_is_not_asked_until_it_is_ready():
    script = Script(Requested=[start()])
    async with staged(planner=script, health=OFTEN) as stage:
        stage.ask("a")
        await until(lambda: stage.engine.health_asked)
        stage.children[0].say("sleeping")
        asked = stage.engine.health_asked
        await until(lambda: stage.engine.health_asked > asked)  # asking wakes nobody
        stage.children[0].say("loading")
        stage.engine.alive.clear()
        await asyncio.sleep(OFTEN.every_seconds * OFTEN.tries * 3)

        assert script.events(Silent) == []


async def test_a_child_that_was_asked_to_exit_is_not_found_hung():
    script = Script(Requested=[start()], UnloadAsked=[AskExit(InstanceId(1), Reason.UNLOADED)])
    async with staged(planner=script, health=OFTEN, obedient=False) as stage:
        stage.ask("a")
        await until(lambda: stage.engine.health_asked)
        stage.operations.unload(Unload(0, "a", False), lambda count: None)
        await until(lambda: stage.children[0].asked)
        stage.engine.alive.clear()
        asked = stage.engine.health_asked
        await asyncio.sleep(OFTEN.every_seconds * OFTEN.tries * 3)

        assert stage.engine.health_asked == asked
        assert script.events(Silent) == []


async def test_a_hung_child_is_replaced_and_its_clients_learn_that_it_was_not_their_request():
    async with staged(preset("a"), health=OFTEN) as stage:
        first = stage.ask("a")
        run = await first.run()
        stage.engine.alive.clear()
        waits = stage.ask("a")
        await until(lambda: run.over.is_set())
        stage.engine.alive.set()

        assert (run.ended.by_itself, run.ended.reason) == (False, "hung")
        first.release()
        assert (await waits.run()).instance == 2
        assert stage.owner.planner.failures == {}
        [gone] = [entry for entry in stage.entries if isinstance(entry, Gone)]
        assert (gone.reason, gone.exit.signal, gone.exit.out_of_memory) == ("hung", 9, False)


async def test_a_child_whose_step_does_not_end_is_killed_although_it_answers_all_else():
    async with staged(preset("a"), health=OFTEN, steps=OFTEN) as stage:
        run = await stage.ask("a").run()
        await until(lambda: stage.engine.steps_asked)
        stage.engine.steps.clear()
        await until(lambda: run.over.is_set())

        assert (run.ended.by_itself, run.ended.reason) == (False, "hung")
        assert stage.engine.alive.is_set()


async def test_what_nobody_uses_is_not_asked_whether_it_gets_on():
    async with staged(preset("a"), health=OFTEN, steps=OFTEN) as stage:
        first = stage.ask("a")
        await first.run()
        await until(lambda: stage.engine.steps_asked)
        first.release()
        await until(lambda: not stage.leases())
        asked, healthy = stage.engine.steps_asked, stage.engine.health_asked
        await until(lambda: stage.engine.health_asked > healthy + 2 * OFTEN.tries)

        assert stage.engine.steps_asked <= asked + 1  # one may have been on its way
