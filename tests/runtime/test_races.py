"""Two things at once, swept over the steps of the event loop: whatever comes first, nobody waits
for ever, no slot is lost, and the owner lives."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.protocol import Refused, Unload

from .standing_in import preset, staged, steps, until

SWEEP = range(8)


async def settled(stage) -> None:
    """Until the owner has nothing more to do for the moment."""
    for _ in range(5):
        await steps(3)
        await stage.owner.caught_up()


@pytest.mark.parametrize("exit_after", SWEEP)
@pytest.mark.parametrize("stop_after", SWEEP)
async def test_a_child_may_exit_around_the_step_in_which_it_is_stopped(exit_after, stop_after):
    async with staged(preset("a"), preset("b"), models_max=1) as stage:
        first = stage.ask("a")
        await first.run()
        first.release()

        async def child_exits():
            await steps(exit_after)
            stage.children[0].end(1)

        async def another_needs_its_place():
            await steps(stop_after)
            return await stage.ask("b").run()

        _, run = await asyncio.gather(child_exits(), another_needs_its_place())

        assert run.spec.preset == "b"
        assert list(stage.owner.runs) == [run.instance]


@pytest.mark.parametrize("ready_after", SWEEP)
@pytest.mark.parametrize("cancel_after", SWEEP)
async def test_a_waiter_may_leave_around_the_step_in_which_it_is_granted(ready_after, cancel_after):
    async with staged(preset("a"), ready=False) as stage:
        leaving = stage.ask("a")
        await until(lambda: stage.children)

        async def child_is_ready():
            await steps(ready_after)
            stage.children[0].say("ready")

        async def waiter_leaves():
            await steps(cancel_after)
            leaving.cancel()

        await asyncio.gather(child_is_ready(), waiter_leaves())
        await settled(stage)

        assert stage.leases() == 0
        await stage.ask("a").run()
        assert stage.leases() == 1


@pytest.mark.parametrize("ready_after", SWEEP)
@pytest.mark.parametrize("stop_after", SWEEP)
async def test_a_child_may_become_ready_around_the_step_in_which_it_is_stopped(
    ready_after, stop_after
):
    async with staged(preset("a"), ready=False, obedient=False) as stage:
        asking = stage.ask("a")
        await until(lambda: stage.children)

        async def child_is_ready():
            await steps(ready_after)
            stage.children[0].say("ready")

        async def a_person_unloads_it():
            await steps(stop_after)
            stage.operations.unload(Unload(0, "a", True), lambda count: None)

        await asyncio.gather(child_is_ready(), a_person_unloads_it())
        await settled(stage)
        stage.children[0].end()
        answer = await asking.answer

        assert isinstance(answer, Refused) or answer.instance == 1
        await until(lambda: not stage.owner.runs)
        assert stage.leases() == 0


@pytest.mark.parametrize("change_after", SWEEP)
@pytest.mark.parametrize("ask_after", SWEEP)
async def test_the_registry_may_change_around_the_step_in_which_a_child_starts(
    change_after, ask_after
):
    async with staged(preset("a"), preset("b")) as stage:

        async def the_preset_is_edited():
            await steps(change_after)
            stage.offers(preset("a", parallel=2), preset("b"), revision=2)

        async def someone_asks():
            await steps(ask_after)
            return await stage.ask("a").run()

        _, run = await asyncio.gather(the_preset_is_edited(), someone_asks())
        await settled(stage)
        applied = asyncio.get_running_loop().create_future()
        stage.operations.apply("a", applied.set_result)
        await applied
        serving = await stage.ask("a").run()

        assert serving.spec.parallel == 2
        assert run.spec.parallel in (1, 2)


@pytest.mark.parametrize("delete_after", SWEEP)
@pytest.mark.parametrize("ask_after", SWEEP)
async def test_a_preset_may_be_deleted_around_the_step_in_which_a_child_starts(
    delete_after, ask_after
):
    async with staged(preset("a"), preset("b")) as stage:

        async def the_preset_is_deleted():
            await steps(delete_after)
            stage.offers(preset("b"), revision=2)

        async def someone_asks():
            await steps(ask_after)
            asking = stage.ask("a")
            await asking.answer
            asking.release()

        await asyncio.gather(the_preset_is_deleted(), someone_asks())
        await until(lambda: not stage.owner.runs)

        assert (await stage.ask("a").refusal()).code == "model_not_found"


@pytest.mark.parametrize("ready_after", SWEEP)
@pytest.mark.parametrize("break_after", SWEEP)
async def test_a_connection_may_break_around_the_step_in_which_its_waiter_is_granted(
    ready_after, break_after
):
    async with staged(preset("a"), ready=False) as stage:
        deserting = stage.ask("a")
        await until(lambda: stage.children)

        async def child_is_ready():
            await steps(ready_after)
            stage.children[0].say("ready")

        async def connection_breaks():
            await steps(break_after)
            deserting.desert()

        await asyncio.gather(child_is_ready(), connection_breaks())

        # Its slot comes back: at once, or when the child has been seen idle.
        await stage.ask("a").run()
        assert stage.leases() == 1


@pytest.mark.parametrize("exit_after", SWEEP)
@pytest.mark.parametrize("release_after", SWEEP)
async def test_a_child_may_die_around_the_step_in_which_its_lease_is_released(
    exit_after, release_after
):
    async with staged(preset("a")) as stage:
        asking = stage.ask("a")
        await asking.run()
        told = asyncio.get_running_loop().create_future()

        async def child_dies():
            await steps(exit_after)
            stage.children[0].end(-11)

        async def holder_releases():
            await steps(release_after)
            stage.operations.leases.release(asking.request, told.set_result, died=True)

        await asyncio.gather(child_dies(), holder_releases())
        ended = await told

        assert (ended.by_itself, ended.signal) == (True, 11)
        assert stage.leases() == 0


@pytest.mark.parametrize("stop_after", range(12))
async def test_the_scheduler_may_be_stopped_at_any_step_of_a_start(stop_after):
    async with staged(preset("a"), obedient=False) as stage:
        asking = stage.ask("a")
        await steps(stop_after)
        stage.owner.stop()
        await stage.task

        assert asking.answer.done()
        assert all(child.killed for child in stage.children)
