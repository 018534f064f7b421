"""What can be asked of the scheduler, and what is refused before the core is asked."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.core.events import Requested
from scheduler.core.planner import Planner
from scheduler.core.values import Config, Kind, Priority
from scheduler.protocol import Fit, FitAnswer, Keep, Ladder, OwnNames, Refused, Unload
from scheduler.runtime.record import Decided
from scheduler.runtime.snapshot import snapshot

from .standing_in import preset, staged, until


async def test_an_alias_leads_to_its_preset():
    async with staged(preset("a", aliases=("other-name",))) as stage:
        assert (await stage.ask("other-name").run()).spec.preset == "a"


async def test_a_pattern_and_the_default_lead_to_their_presets():
    served = preset("a", parallel=9, aliases=("gpt*",)), preset("b", parallel=9, aliases=("*",))
    async with staged(*served, models_max=2) as stage:
        found = [(await stage.ask(name).run()).spec.preset for name in ("gpt-4o", "x", "")]

        assert found == ["a", "b", "b"]


async def test_the_callers_own_names_go_before_everybodys():
    served = preset("a", parallel=9, aliases=("gpt*",)), preset("b", parallel=9, aliases=("brief",))
    async with staged(*served, models_max=2) as stage:
        asked = [
            stage.ask("a", own=OwnNames(exact="brief")),
            stage.ask("gpt-4o", own=OwnNames(wildcard="b")),
            stage.ask("a", own=OwnNames(wildcard="b", default="b")),
        ]

        assert [(await each.run()).spec.preset for each in asked] == ["b", "b", "a"]


async def test_a_name_of_the_callers_own_that_leads_nowhere_is_refused_with_where_it_leads():
    async with staged(preset("a", aliases=("*",))) as stage:
        refusal = await stage.ask("gpt-4o", own=OwnNames(wildcard="gone")).refusal()

        assert refusal.code == "model_not_found"
        assert "'gpt-4o' stands for 'gone'" in refusal.message


async def test_who_names_no_model_is_told_so_where_there_is_no_default():
    async with staged(preset("a")) as stage:
        assert (await stage.ask("").refusal()).code == "model_missing"


async def test_a_person_loads_by_the_name_and_by_nothing_like_it():
    async with staged(preset("a", aliases=("gpt*", "*"))) as stage:
        answers = []
        stage.operations.load("gpt-4o", answers.append)
        await stage.owner.caught_up()

        assert [answer.code for answer in answers] == ["model_not_found"]
        assert stage.starts == []


async def test_an_unknown_name_is_refused_with_names_that_exist():
    async with staged(preset("a"), preset("b")) as stage:
        refusal = await stage.ask("nope").refusal()

        assert refusal.code == "model_not_found"
        assert "'a'" in refusal.message
        assert stage.starts == []


async def test_a_preset_that_cannot_be_started_is_refused_with_its_problem():
    async with staged(preset("a", problem="--colour is no option"), preset("b")) as stage:
        await stage.ask("b").run()
        refusal = await stage.ask("a").refusal()

        assert refusal.code == "preset_invalid"
        assert "--colour is no option" in refusal.message
        assert snapshot(stage.owner, 1).problems == {"a": "--colour is no option"}


async def test_a_missing_model_file_is_refused_and_evicts_nobody(tmp_path):
    missing = preset("a", model_path=str(tmp_path / "gone.gguf"))
    async with staged(missing, preset("b"), models_max=1) as stage:
        idle = stage.ask("b")
        await idle.run()
        idle.release()
        refusal = await stage.ask("a").refusal()

        assert refusal.code == "preset_invalid"
        assert "gone.gguf" in refusal.message
        assert stage.starts == ["b"]


async def test_who_waits_for_what_turns_out_unreadable_is_told_so_and_evicts_nobody():
    async with staged(preset("a"), preset("b"), models_max=1) as stage:
        serving = stage.ask("b")
        run = await serving.run()
        waiting = [stage.ask("a"), stage.ask("a")]
        await stage.owner.caught_up()
        stage.offers(preset("a", problem="it is cut off"), preset("b"), revision=2)
        refusals = [await each.refusal() for each in waiting]
        serving.release()
        await stage.owner.caught_up()

        assert {refusal.code for refusal in refusals} == {"preset_invalid"}
        assert all("it is cut off" in refusal.message for refusal in refusals)
        assert stage.queue() == []
        assert list(stage.owner.runs.values()) == [run]
        assert run.leaving is None
        [told] = [e for e in stage.entries if isinstance(e, Decided) and e.kind == "reject"]
        assert (told.preset, told.reason) == ("a", "preset_invalid")


async def test_who_waits_for_a_slot_of_what_runs_has_it_although_the_preset_breaks():
    async with staged(preset("a")) as stage:
        first = stage.ask("a")
        run = await first.run()
        second = stage.ask("a")
        await stage.owner.caught_up()
        stage.offers(preset("a", problem="it is cut off"), revision=2)
        await stage.owner.caught_up()
        first.release()

        assert await second.run() is run


async def test_a_running_instance_serves_on_when_its_file_is_gone(tmp_path):
    file = tmp_path / "model.gguf"
    file.touch()
    async with staged(preset("a", parallel=2, model_path=str(file))) as stage:
        await stage.ask("a").run()
        file.unlink()

        assert (await stage.ask("a").run()).instance == 1


async def test_a_running_instance_serves_on_when_its_preset_is_broken():
    async with staged(preset("a", parallel=2)) as stage:
        await stage.ask("a").run()
        broken = preset("a", parallel=2, fingerprint="broken", problem="no such option")
        stage.offers(broken, revision=2)

        assert (await stage.ask("a").run()).instance == 1


async def test_without_autoload_an_unloaded_model_is_refused():
    async with staged(preset("a")) as stage:
        refusal = await stage.ask("a", autoload=False).refusal()

        assert refusal.code == "model_not_loaded"
        assert stage.starts == []


async def test_without_autoload_a_loaded_model_serves():
    async with staged(preset("a", parallel=2)) as stage:
        await stage.ask("a").run()

        assert (await stage.ask("a", autoload=False).run()).instance == 1


async def test_a_persons_load_is_queued_and_then_loaded():
    async with staged(preset("a"), ready=False) as stage:
        queued, loaded = asyncio.Event(), asyncio.Event()
        request = stage.operations.load("a", lambda answer: loaded.set(), queued.set)
        await queued.wait()
        await until(lambda: stage.children)
        assert not loaded.is_set()

        stage.children[0].say("ready")
        await loaded.wait()
        stage.operations.leases.desert(request)
        await stage.owner.caught_up()

        assert stage.leases() == 0
        assert stage.owner.runs[1].orphans == set()


async def test_unloading_tells_how_many_ran():
    async with staged(preset("a")) as stage:
        asking = stage.ask("a")
        await asking.run()
        asking.release()
        told = asyncio.get_running_loop().create_future()
        stage.operations.unload(Unload(0, "a", False), told.set_result)

        assert await told == 1
        await until(lambda: not stage.owner.runs)


@pytest.mark.parametrize("busy", [None, 1])
async def test_a_deserted_lease_counts_while_its_slot_may_be_busy(busy):
    async with staged(preset("a")) as stage:
        stage.engine.busy = busy
        asking = stage.ask("a")
        await asking.run()
        asking.desert()
        await stage.owner.caught_up()
        assert stage.leases() == 1

        stage.engine.busy = 0
        await stage.ask("a").run()
        assert stage.leases() == 1


async def test_without_slots_a_deserted_lease_ends_with_the_limit_of_its_answer():
    async with staged(preset("a", answer_timeout_seconds=0.1), preset("b")) as stage:
        stage.engine.tells_slots = False
        short, long = stage.ask("a"), stage.ask("b")
        await short.run()
        await long.run()
        short.desert()
        long.desert()
        await stage.owner.caught_up()
        assert stage.leases() == 2

        await until(lambda: stage.leases() == 1)
        assert stage.engine.asked == 0


async def test_a_deserted_look_is_over_for_it_keeps_no_slot_busy():
    async with staged(preset("a")) as stage:
        stage.engine.busy = None
        look = stage.ask("a", kind="get")
        await look.run()
        look.desert()
        await stage.owner.caught_up()

        assert stage.owner.runs[1].orphans == set()
        assert stage.leases() == 0
        assert stage.engine.asked == 0


async def test_the_core_is_told_whose_request_it_is_and_how_that_one_stands():
    told: list[Requested] = []

    class Hearing(Planner):
        def handle(self, event, now):
            if isinstance(event, Requested):
                told.append(event)
            return super().handle(event, now)

    async with staged(preset("a"), planner=Hearing(Config()), clock=lambda: 50.0) as stage:
        asking = stage.ask("a", kind="get", tenant="blue", weight=2.5, priority="low", age=4.0)
        await stage.owner.caught_up()
        asking.cancel()

    assert told == [
        Requested(asking.request, "a", 46.0, Kind.GET, "blue", 2.5, Priority.LOW),
    ]


async def test_a_sleeper_is_not_asked_for_its_slots():
    async with staged(preset("a")) as stage:
        stage.engine.busy = None
        asking = stage.ask("a")
        await asking.run()
        stage.children[0].say("sleeping")
        asking.desert()
        await stage.owner.caught_up()
        await until(lambda: not stage.leases())


async def test_a_sleeper_is_woken_and_granted_when_it_is_ready():
    async with staged(preset("a")) as stage:
        first = stage.ask("a")
        await first.run()
        first.release()
        stage.children[0].say("sleeping")
        again = stage.ask("a")
        await until(lambda: stage.engine.woken)
        assert not again.answer.done()

        stage.children[0].say("loading", {"value": 0.5})
        stage.children[0].say("ready")

        assert (await again.run()).instance == 1
        assert stage.starts == ["a"]


async def test_a_snapshot_shows_what_is_live():
    async with staged(preset("a"), preset("b"), models_max=1) as stage:
        await stage.ask("a").run()
        stage.ask("b")
        told = asyncio.get_running_loop().create_future()
        stage.operations.snapshot(told.set_result)
        state = await told

        [instance] = state.instances
        assert (instance.preset, instance.state, instance.leases) == ("a", "loaded", 1)
        assert instance.pid == 1000
        [entry] = state.queue
        assert (entry.preset, entry.waiters) == ("b", 1)
        assert state.revision == 1
        stage.operations.unload(Unload(0, "a", True), lambda count: None)


async def test_an_edited_preset_counts_once_it_is_applied():
    async with staged(preset("a", parallel=2)) as stage:
        await stage.ask("a").run()
        stage.offers(preset("a", parallel=2, fingerprint="edited"), revision=2)
        assert (await stage.ask("a").run()).instance == 1

        applied = asyncio.get_running_loop().create_future()
        stage.operations.apply("a", applied.set_result)
        assert await applied is None

        assert (await stage.ask("a").run()).instance == 2


async def test_a_tenants_wish_ends_what_it_alone_has_used():
    async with staged(preset("a", aliases=("first",))) as stage:
        asking = stage.ask("a", tenant="blue")
        run = await asking.run()
        told = asyncio.get_running_loop().create_future()
        stage.operations.leases.release(asking.request, lambda ended: None)

        stage.operations.keep(Keep(1, "first", 0.0, "blue"), told.set_result)

        assert await told is None
        await run.over.wait()
        assert run.ended.reason == "idle"


async def test_nobody_wishes_anything_of_an_unknown_preset():
    async with staged(preset("a")) as stage:
        told = asyncio.get_running_loop().create_future()
        stage.operations.keep(Keep(1, "nope", 0.0, "blue"), told.set_result)

        assert (await told).code == "model_not_found"


async def test_nothing_can_be_applied_to_an_unknown_preset():
    async with staged(preset("a")) as stage:
        told = asyncio.get_running_loop().create_future()
        stage.operations.apply("nope", told.set_result)

        assert (await told).code == "model_not_found"


@pytest.mark.parametrize(
    "shape",
    [
        {"form": "fixed", "sizes": [], "unreported": 0},
        {
            "form": "fixed",
            "sizes": [{"context": 1, "need": {"own": {"Host": 10**30}}}],
            "unreported": 0,
        },
    ],
)
async def test_what_is_no_shape_is_refused_and_ends_nothing(shape):
    async with staged(preset("a")) as stage:
        answers: list[FitAnswer | Refused] = []
        stage.operations.fit(Fit(1, "new", shape), answers.append)
        await stage.owner.caught_up()
        [refusal] = answers

        assert isinstance(refusal, Refused)
        assert refusal.code == "invalid_request"
        assert (await stage.ask("a").run()).spec.preset == "a"


OPEN = {
    "form": "open", "contexts": [1024, 2048],
    "layers": [{"weights": 8, "cache": [1, 2], "largest": 8}],
    "devices": ["CUDA0"], "file": "", "mapped": [8, 0], "device_compute": [1, 1],
    "host_compute": [[0, 0], [0, 0]], "spread_compute": [[], []], "host_fixed": 0,
    "first_device_fixed": [], "receiving": [], "measured": [], "unreported": 0,
}  # fmt: skip
FIXED = {"form": "fixed", "sizes": [{"context": 0, "need": {"own": {"Host": 4}}}], "unreported": 0}


async def test_with_a_ladder_it_tells_what_other_contexts_would_take():
    async with staged(preset("a")) as stage:
        answers: list[FitAnswer | Refused] = []
        ladder = Ladder(OPEN, 2048, {"CUDA0": 9}, [{}, {"CUDA0": 1}])
        stage.operations.fit(Fit(1, "new", FIXED, ladder=ladder), answers.append)
        await stage.owner.caught_up()
        [answer] = answers

        assert isinstance(answer, FitAnswer)
        assert answer.ladders is not None
        contexts, layers = answer.ladders.contexts, answer.ladders.layers
        assert [(step.at, step.bytes) for step in contexts] == [
            (1024, {"CUDA0": 10}),
            (2048, {"CUDA0": 11}),
        ]
        assert [(step.at, step.bytes) for step in layers] == [(0, {"Host": 10}), (1, {"CUDA0": 11})]


@pytest.mark.parametrize("shape", [FIXED, {}, {**OPEN, "contexts": []}])
async def test_a_ladder_of_no_open_shape_is_refused(shape):
    async with staged(preset("a")) as stage:
        answers: list[FitAnswer | Refused] = []
        stage.operations.fit(Fit(1, "new", FIXED, ladder=Ladder(shape)), answers.append)
        await stage.owner.caught_up()
        [refusal] = answers

        assert isinstance(refusal, Refused)
        assert "the ladder's shape" in refusal.message
