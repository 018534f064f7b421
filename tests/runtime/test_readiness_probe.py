"""A preset with a readiness probe has loaded when its child has generated something."""

from __future__ import annotations

import pytest

from scheduler.core.events import Exited, ReadyReported, SleepingReported
from scheduler.core.planner import Planner
from scheduler.core.values import Config
from scheduler.protocol import Unload
from scheduler.runtime.record import Gone, Loaded

from .standing_in import preset, staged, until
from .test_owner import Script, start

PROBED = preset("a", readiness_probe=True)


async def test_nobody_is_sent_to_it_before_it_has_generated_a_token():
    async with staged(PROBED) as stage:
        stage.engine.generates.clear()
        asked = stage.ask("a")
        await until(lambda: stage.engine.probed)
        await stage.owner.caught_up()
        assert not asked.answer.done()
        assert not [entry for entry in stage.entries if isinstance(entry, Loaded)]

        stage.engine.generates.set()

        assert (await asked.run()).spec.preset == "a"
        assert stage.engine.probed == ["a"]


async def test_without_one_nothing_is_generated():
    async with staged(preset("a")) as stage:
        await stage.ask("a").run()

        assert stage.engine.probed == []


async def test_one_that_generates_nothing_has_failed_to_load_with_words_that_say_so():
    async with staged(PROBED) as stage:
        stage.engine.probe_fails = "POST /completion was answered 500: no backend"
        refusal = await stage.ask("a").refusal()

        assert refusal.code == "model_load_failed"
        assert "it loaded, and generated nothing: POST /completion was answered" in refusal.message
        assert stage.children[0].killed == 1
        [gone] = [entry for entry in stage.entries if isinstance(entry, Gone)]
        assert (gone.reason, gone.exit.signal) == ("failed_to_load", 9)
        assert "no backend" in gone.exit.words
        assert list(stage.owner.planner.failures) == ["a"]


async def test_one_that_dies_while_it_is_probed_has_failed_to_load_by_its_own_exit():
    async with staged(PROBED) as stage:
        stage.engine.generates.clear()
        asked = stage.ask("a")
        await until(lambda: stage.engine.probed)
        stage.children[0].log("E ggml_abort: assertion failed")
        stage.children[0].end(-6)
        refusal = await asked.refusal()

        assert refusal.code == "model_load_failed"
        assert "SIGABRT" in refusal.message
        assert "assertion failed" in refusal.message


async def test_a_probe_that_takes_for_ever_is_ended_by_the_bound_of_the_load():
    planner = Planner(Config(load_stall_seconds=0.05))
    async with staged(PROBED, planner=planner) as stage:
        stage.engine.generates.clear()
        refusal = await stage.ask("a").refusal()

        assert "no progress for 0.05 s" in refusal.message
        await until(lambda: not stage.owner.runs)
        [gone] = [entry for entry in stage.entries if isinstance(entry, Gone)]
        assert gone.reason == "load_stalled"


async def test_one_that_is_stopped_while_it_is_probed_has_not_failed():
    async with staged(PROBED) as stage:
        stage.engine.generates.clear()
        stage.engine.probe_fails = "the connection broke"
        asked = stage.ask("a")
        await until(lambda: stage.engine.probed)
        stage.operations.unload(Unload(0, "a", False), lambda count: None)
        refusal = await asked.refusal()
        stage.engine.generates.set()
        await until(lambda: not stage.owner.runs)

        assert refusal.code == "unloaded"
        assert stage.owner.planner.failures == {}
        [gone] = [entry for entry in stage.entries if isinstance(entry, Gone)]
        assert gone.reason == "unloaded"
        assert "generated nothing" not in gone.exit.words


async def test_a_wake_is_not_probed_again():
    script = Script(Requested=[start()])
    async with staged(PROBED, planner=script) as stage:
        stage.ask("a")
        await until(lambda: script.events(ReadyReported))
        for state in ("sleeping", "loading", "ready"):
            stage.children[0].say(state)
        await until(lambda: len(script.events(ReadyReported)) == 2)

        assert stage.engine.probed == ["a"]


async def test_what_it_says_while_it_is_probed_is_told_after_it():
    script = Script(Requested=[start()])
    async with staged(PROBED, planner=script) as stage:
        stage.engine.generates.clear()
        stage.ask("a")
        await until(lambda: stage.engine.probed)
        for state in ("ready", "loading", "sleeping"):
            stage.children[0].say(state)
        await stage.owner.caught_up()
        told = (ReadyReported, SleepingReported)
        assert not [event for event, _ in script.heard if isinstance(event, told)]
        stage.engine.generates.set()
        await until(lambda: script.events(SleepingReported))

        assert [type(event) for event, _ in script.heard if isinstance(event, told)] == [*told]


@pytest.mark.parametrize("returncode", [-9, -11])
@pytest.mark.parametrize("counted", [True, False])
async def test_a_kill_by_the_kernel_is_told_from_every_other_end(returncode, counted):
    script = Script(Requested=[start()])
    async with staged(planner=script, killed_for_memory=lambda: counted) as stage:
        stage.ask("a")
        await until(lambda: script.events(ReadyReported))
        stage.children[0].end(returncode)
        await until(lambda: script.events(Exited))

        [gone] = [entry for entry in stage.entries if isinstance(entry, Gone)]
        by_kernel = counted and returncode == -9
        assert gone.reason == ("out_of_memory" if by_kernel else "crashed")
        assert gone.exit.out_of_memory == by_kernel
        assert ("the kernel killed it" in gone.exit.words) == by_kernel


async def test_a_kill_of_ours_is_never_the_kernels():
    async with staged(preset("a"), obedient=False, killed_for_memory=lambda: True) as stage:
        await stage.ask("a").run()
        stage.owner.stop()
        stage.owner.stop()
        await stage.task

        [gone] = [entry for entry in stage.entries if isinstance(entry, Gone)]
        assert (gone.reason, gone.exit.out_of_memory) == ("shutdown", False)
