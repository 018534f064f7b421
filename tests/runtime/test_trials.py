"""A preset that is tried before it is saved, and what made way for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from models_registry.launch import LaunchSpec
from scheduler.core.events import DevicesRead
from scheduler.core.sizes import DeviceId, DeviceReading
from scheduler.protocol import Refused, Try
from scheduler.runtime.instance_run import InstanceRun

from .serving import listening, socket_path, wired
from .standing_in import Stage, preset, staged, until

SHAPE = {"form": "fixed", "sizes": [{"context": 0, "need": {"own": {"Host": 4}}}], "unreported": 0}


def trial(stage: Stage, spec: LaunchSpec, shape: dict[str, Any] = SHAPE) -> tuple[int, list[Any]]:
    answers: list[Any] = []
    asked = Try(1, msgspec.to_builtins(spec), shape)
    return stage.operations.trials.begin(asked, answers.append), answers


def loaded(stage: Stage) -> list[str]:
    return sorted(run.spec.preset for run in stage.owner.runs.values())


async def test_it_is_loaded_as_it_is_edited_beside_what_runs():
    async with staged(preset("a"), models_max=2) as stage:
        await stage.ask("a").run()
        request, answers = trial(stage, replace(preset("a"), argv=("--edited",), pinned=True))
        await until(lambda: answers)

        [run] = answers
        assert isinstance(run, InstanceRun)
        assert (run.spec.argv, run.spec.pinned) == (("--edited",), False)
        assert loaded(stage) == ["a", "a~try"]
        stage.operations.leases.release(request, lambda ended: None)
        await until(lambda: loaded(stage) == ["a"])
        assert stage.owner.offer.names() == ["a"]


async def test_nobody_else_reaches_it():
    async with staged(preset("a", aliases=("*",)), models_max=2) as stage:
        _, answers = trial(stage, preset("b"))
        await until(lambda: answers)

        assert (await stage.ask("b~try").run()).spec.preset == "a"
        stage.operations.load("b~try", answers.append)
        await until(lambda: len(answers) == 2)
        assert answers[1].code == "model_not_found"


async def test_what_made_way_for_it_is_loaded_again_when_it_is_over():
    async with staged(preset("a"), preset("b"), models_max=1) as stage:
        lease = stage.ask("a")
        await lease.run()
        lease.release()
        request, answers = trial(stage, preset("b"))
        await until(lambda: answers)
        assert loaded(stage) == ["b~try"]

        stage.operations.leases.release(request, lambda ended: None)

        await until(lambda: loaded(stage) == ["a"])
        assert stage.starts == ["a", "b~try", "a"]


async def test_what_somebody_wants_meanwhile_is_not_evicted_for_what_comes_back():
    async with staged(preset("a"), preset("b"), models_max=1) as stage:
        lease = stage.ask("a")
        await lease.run()
        lease.release()
        request, answers = trial(stage, preset("c"))
        await until(lambda: answers)
        other = stage.ask("b")

        stage.operations.leases.release(request, lambda ended: None)

        assert (await other.run()).spec.preset == "b"
        await stage.owner.caught_up()
        assert loaded(stage) == ["b"]


async def test_a_running_answer_is_not_cut_for_it():
    async with staged(preset("a"), models_max=1) as stage:
        lease = stage.ask("a")
        await lease.run()
        request, answers = trial(stage, preset("b"))
        await stage.owner.caught_up()
        assert (loaded(stage), answers) == (["a"], [])

        stage.operations.leases.cancel(request)

        await stage.owner.caught_up()
        assert loaded(stage) == ["a"]
        lease.release()
        assert (await stage.ask("a").run()).instance == 1


async def test_a_trial_that_is_left_ends_with_its_connection():
    async with staged(preset("a"), models_max=2) as stage:
        with socket_path() as socket:
            async with listening(stage, socket):
                async with wired(socket) as wire:
                    spec = msgspec.to_builtins(preset("a"))
                    reply = await wire.ask({"op": "try", "id": 1, "spec": spec, "shape": SHAPE})
                    assert reply["ok"]["preset"] == "a~try"
                await until(lambda: not loaded(stage))


async def test_a_child_that_does_not_load_says_why_and_leaves_nothing():
    async with staged(preset("a"), models_max=1, ready=False) as stage:
        _, answers = trial(stage, preset("a"))
        await until(lambda: stage.children)
        stage.children[0].log("0.00.006.676 E no such option")
        stage.children[0].end(1)

        await until(lambda: answers)

        assert answers[0].code == "model_load_failed"
        assert "no such option" in answers[0].message
        await until(lambda: stage.owner.offer.trials == {})


async def test_the_registry_may_change_meanwhile():
    async with staged(preset("a"), models_max=2) as stage:
        request, answers = trial(stage, preset("a"))
        await until(lambda: answers)

        stage.offers(preset("b"), revision=2)
        await stage.owner.caught_up()

        assert loaded(stage) == ["a~try"]
        stage.operations.leases.release(request, lambda ended: None)
        await until(lambda: not loaded(stage))


async def test_one_preset_is_tried_once_at_a_time():
    async with staged(preset("a"), models_max=3) as stage:
        _, first = trial(stage, preset("a"))
        await until(lambda: first)

        _, second = trial(stage, preset("a"))

        await until(lambda: second)
        assert second[0].code == "conflict"
        assert loaded(stage) == ["a~try"]


async def test_what_is_not_measured_waits_for_no_measurement():
    async with staged(preset("a"), models_max=1) as stage:
        room = DeviceReading(DeviceId("Host"), 10, 10)
        stage.owner.post(DevicesRead((room,)))
        _, answers = trial(stage, preset("a", memory_fingerprint="never-measured"))

        await until(lambda: answers)
        assert dict(answers[0].grant.need.own) == {"Host": 4}


async def test_it_is_refused_with_the_figures_where_it_can_never_fit():
    async with staged(preset("a"), models_max=1) as stage:
        stage.owner.post(DevicesRead((DeviceReading(DeviceId("Host"), 3, 3),)))
        _, answers = trial(stage, preset("a", memory_fingerprint="m"))

        await until(lambda: answers)
        assert answers[0].code == "model_too_large"


@pytest.mark.parametrize(
    ("spec", "shape", "code"),
    [
        ({}, SHAPE, "invalid_request"),
        (msgspec.to_builtins(preset("a")), {"form": "none"}, "invalid_request"),
        (msgspec.to_builtins(preset("a", problem="no file")), SHAPE, "preset_invalid"),
    ],
)
async def test_what_cannot_be_started_is_refused(spec, shape, code):
    async with staged(preset("a")) as stage:
        answers: list[Any] = []
        stage.operations.trials.begin(Try(1, spec, shape), answers.append)
        await stage.owner.caught_up()

        assert isinstance(answers[0], Refused)
        assert answers[0].code == code
        assert stage.owner.offer.trials == {}
