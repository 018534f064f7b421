"""The owner: it hears of every end, minds the time, and dies loudly of its own bugs."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from scheduler.core.decisions import AskExit, Drain, Grant, Kill, Reason, Revoke, Start, WakeAt
from scheduler.core.events import (
    Exited,
    LoadingReported,
    ReadyReported,
    Released,
    Requested,
    Ticked,
)
from scheduler.core.planner import Planner
from scheduler.core.values import Config, Exit, InstanceId, PresetName, PresetSpec, RequestId
from scheduler.protocol import Unload
from scheduler.runtime.record import Decided, Gone

from .standing_in import preset, staged, steps, until


class Script:
    """Stands where the planner stands: answers an event's type with what was written for it."""

    def __init__(self, **lines):
        self.instances, self.failures = {}, {}
        self.heard = []
        self._lines = lines

    def entries(self):
        return []

    def instances_of(self, preset):
        return []

    def unmeasured_for_long(self, now):
        return []

    def handle(self, event, now):
        self.heard.append((event, now))
        answer = self._lines.get(type(event).__name__, [])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def events(self, kind):
        return [event for event, _ in self.heard if isinstance(event, kind)]


def start(number=1, name="a"):
    return Start(InstanceId(number), PresetSpec(PresetName(name)), Reason.REQUESTED)


def decided(stage):
    return [entry for entry in stage.entries if isinstance(entry, Decided)]


async def ended_with(stage, kind):
    with pytest.raises(ExceptionGroup) as group:
        await stage.task
    assert group.group_contains(kind)


async def test_a_bug_in_a_decision_ends_the_owner_and_its_children():
    script = Script(Requested=[start()], ReadyReported=RuntimeError("a bug"))
    async with staged(planner=script) as stage:
        stage.ask("a")

        await ended_with(stage, RuntimeError)
        assert stage.children[0].killed


async def test_an_event_that_shows_a_bug_in_the_core_is_noted_like_any_other():
    script = Script(Requested=[start()], ReadyReported=RuntimeError("a bug"))
    noted = []
    async with staged(planner=script, note=lambda *step: noted.append(step)) as stage:
        stage.ask("a")

        await ended_with(stage, RuntimeError)
        assert [(event, decisions) for _, event, decisions in noted][-2:] == [
            (script.events(Requested)[0], [start()]),
            (ReadyReported(InstanceId(1)), ()),
        ]


async def test_a_drain_that_is_passed_on_is_recorded_again_with_what_it_rests_on():
    first = Drain(InstanceId(1), Reason.EVICTED, PresetName("b"), (("waited", 30.5), ("slots", 2)))
    script = Script(
        Requested=[start()], ReadyReported=[first], ApplyAsked=[replace(first, for_preset="c")]
    )
    async with staged(planner=script) as stage:
        stage.ask("a")
        await until(lambda: script.events(ReadyReported))
        stage.operations.apply("a", lambda refused: None)
        await stage.owner.caught_up()

        drains = [entry.figures for entry in decided(stage) if entry.kind == "drain"]
        assert drains == [
            {"for": "b", "waited": 30.5, "slots": 2},
            {"for": "c", "waited": 30.5, "slots": 2},
        ]


@pytest.mark.parametrize("reason", [Reason.IDLE, Reason.HUNG, Reason.UNWANTED])
async def test_each_reason_of_an_end_is_kept_with_the_instance(reason):
    script = Script(Requested=[start()], ReadyReported=[Kill(InstanceId(1), reason)])
    async with staged(planner=script) as stage:
        stage.ask("a")
        await until(lambda: script.events(Exited))

        [gone] = [entry for entry in stage.entries if isinstance(entry, Gone)]
        assert gone.reason == reason
        assert ("kill", str(reason)) in [(e.kind, e.reason) for e in decided(stage)]


async def test_a_revoked_look_may_be_released_all_the_same():
    look = RequestId(1)
    script = Script(
        Requested=[start()],
        ReadyReported=[Grant(look, InstanceId(1)), Revoke(look, InstanceId(1))],
    )
    async with staged(planner=script) as stage:
        asked = stage.ask("a")
        await asked.run()
        asked.release()
        await stage.owner.caught_up()

        assert script.events(Released) == [Released(look)]


async def test_a_bug_in_a_childs_task_ends_the_owner():
    script = Script(Requested=[start()])
    async with staged(planner=script, spawn_fails=[RuntimeError("a bug")]) as stage:
        stage.ask("a")

        await ended_with(stage, RuntimeError)


async def test_a_child_that_cannot_be_spawned_has_exited():
    script = Script(Requested=[start()])
    async with staged(planner=script, spawn_fails=[OSError("no more processes")]) as stage:
        stage.ask("a")
        await until(lambda: script.events(Exited))

        [exited] = script.events(Exited)
        assert exited.exit.code is None
        assert "no more processes" in exited.exit.words


async def test_a_task_cancelled_before_its_first_step_has_exited_too():
    script = Script(Requested=[start()])
    async with staged(planner=script) as stage:
        stage.ask("a")
        while not stage.owner.runs:
            await steps(1)
        [task] = [task for task in asyncio.all_tasks() if task.get_name() == "instance-1"]
        task.cancel()
        await until(lambda: script.events(Exited))

        assert script.events(Exited) == [
            Exited(InstanceId(1), Exit(words="it was stopped before it was started"))
        ]
        assert stage.children == []


async def test_a_child_asked_to_exit_before_it_is_spawned_is_killed_when_it_is():
    script = Script(Requested=[start(), AskExit(InstanceId(1), Reason.UNLOADED)])
    async with staged(planner=script, obedient=False) as stage:
        stage.ask("a")
        await until(lambda: script.events(Exited))

        assert stage.children[0].killed == 1
        assert stage.children[0].asked == 0


async def test_a_loading_child_is_killed_and_not_asked():
    script = Script(Requested=[start()], UnloadAsked=[AskExit(InstanceId(1), Reason.UNLOADED)])
    async with staged(planner=script, ready=False) as stage:
        stage.ask("a")
        await until(lambda: stage.children)
        stage.operations.unload(Unload(0, "a", False), lambda count: None)
        await until(lambda: script.events(Exited))

        assert (stage.children[0].asked, stage.children[0].killed) == (0, 1)


async def test_time_passes_for_the_core_without_any_event():
    script = Script()
    async with staged(planner=script) as stage:
        await until(lambda: len(script.events(Ticked)) >= 2)
        assert not stage.task.done()


async def test_the_core_is_woken_when_it_asked_to_be():
    now = asyncio.get_running_loop().time
    asked = now() + 0.05
    script = Script(PresetsChanged=[WakeAt(asked)])
    async with staged(planner=script, clock=now):
        await until(lambda: script.events(Ticked))

        [(_, ticked)] = [(e, at) for e, at in script.heard if isinstance(e, Ticked)]
        assert asked - 0.01 <= ticked < asked + 0.9


async def test_time_is_what_the_clock_says():
    script = Script()
    async with staged(planner=script, clock=lambda: 77.0) as stage:
        stage.ask("a", age=7.0)
        await stage.owner.caught_up()

        [asked] = script.events(Requested)
        assert asked.arrived == 70.0
        assert {at for _, at in script.heard} == {77.0}


async def test_a_child_that_does_not_exit_at_the_end_is_killed():
    async with staged(preset("a"), obedient=False) as stage:
        await stage.ask("a").run()
        stage.owner.stop()
        await stage.task

        assert (stage.children[0].asked, stage.children[0].killed) == (1, 1)


async def test_asked_to_stop_twice_it_does_not_wait():
    async with staged(preset("a", stop_timeout_seconds=3600.0), obedient=False) as stage:
        await stage.ask("a").run()
        stage.owner.stop()
        stage.owner.stop()
        await stage.task

        assert stage.children[0].killed == 1


async def test_who_waits_at_the_end_is_refused():
    async with staged(preset("a"), ready=False) as stage:
        waiting = stage.ask("a")
        await stage.owner.caught_up()
        stage.owner.stop()

        assert (await waiting.refusal()).code == "shutting_down"


async def test_a_report_after_the_end_of_its_child_is_not_told_to_the_core():
    script = Script(Requested=[start()])
    async with staged(planner=script, ready=False) as stage:
        stage.ask("a")
        await until(lambda: stage.children)
        stage.children[0].end(1)
        await until(lambda: script.events(Exited))
        stage.children[0].say("ready")
        await stage.owner.caught_up()

        assert script.events(ReadyReported) == []


async def test_an_exit_is_asked_for_only_when_the_child_heeds_it():
    async with staged(preset("a", stop_timeout_seconds=3600.0)) as stage:
        stage.engine.settled.clear()
        await stage.ask("a").run()
        stage.owner.stop()
        await stage.owner.caught_up()
        assert (stage.children[0].asked, stage.children[0].killed) == (0, 0)

        stage.engine.settled.set()
        await stage.task

        assert (stage.children[0].asked, stage.children[0].killed) == (1, 0)


async def test_a_child_whose_slots_never_answer_does_not_hold_up_the_end():
    async with staged(preset("a")) as stage:
        asking = stage.ask("a")
        await asking.run()
        stage.engine.answers.clear()
        asking.desert()
        await until(lambda: stage.engine.asked)
        stage.owner.stop()
        await stage.task


async def test_a_kill_after_the_stop_timeout_keeps_the_reason_of_the_leaving():
    stubborn = preset("a", stop_timeout_seconds=0.05)
    async with staged(stubborn, preset("b"), models_max=1, obedient=False) as stage:
        first = stage.ask("a")
        await first.run()
        first.release()
        await stage.ask("b").run()

        [gone] = [entry for entry in stage.entries if isinstance(entry, Gone)]
        assert (gone.reason, gone.exit.signal) == ("evicted", 9)


@pytest.mark.parametrize(
    ("state", "told"), [("loading", "error: a client's grammar"), ("ready", "")]
)
async def test_words_after_ready_go_to_the_record_and_to_no_client(state, told):
    async with staged(preset("a"), ready=False) as stage:
        asked = stage.ask("a")
        await until(lambda: stage.children)
        [child] = stage.children
        child.say(state)
        if state == "ready":
            await asked.run()
        [run] = stage.owner.runs.values()
        child.log("error: a client's grammar")
        child.end(1)
        await until(lambda: run.over.is_set())
        [gone] = [entry for entry in stage.entries if isinstance(entry, Gone)]

        assert gone.exit.words == "error: a client's grammar"
        assert run.ended.words == told


async def test_a_load_that_gets_on_is_told_to_the_planner_step_by_step():
    script = Script(Requested=[start()])
    async with staged(planner=script, ready=False) as stage:
        stage.ask("a")
        await until(lambda: stage.children)
        for value in (0.0, 0.5, 0.5, 0.4, 1.0):
            stage.children[0].say("loading", {"value": value})
        await stage.owner.caught_up()

        said = [event.progress for event in script.events(LoadingReported)]
        assert said == [0.0, 0.5, 1.0]


async def test_a_child_that_loads_for_ever_is_killed_and_the_next_model_loads():
    planner = Planner(Config(load_stall_seconds=0.05))
    async with staged(preset("a"), preset("b"), planner=planner, ready=False) as stage:
        hangs, waits = stage.ask("a"), stage.ask("b")
        refusal = await hangs.refusal()
        await until(lambda: len(stage.children) == 2)
        stage.children[1].say("ready")

        assert (await waits.run()).spec.preset == "b"
        assert refusal.code == "model_load_failed"
        assert "no progress for 0.05 s" in refusal.message
        assert stage.children[0].killed == 1
        [gone] = [entry for entry in stage.entries if isinstance(entry, Gone)]
        assert gone.reason == "load_stalled"
