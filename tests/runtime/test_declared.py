"""Memory of what cannot be measured: declared, held, then learned."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from models_registry.engines import EngineKind, EngineSetup
from models_registry.launch import LaunchSpec
from models_registry.models import Measurement
from scheduler.core.sizes import HOST, DeviceId, DeviceReading
from scheduler.measuring.estimating import shape_data_of
from scheduler.measuring.shapes import shape_of
from scheduler.models import InstanceRecord
from scheduler.runtime.declared import learned_shapes
from scheduler.runtime.devices.device import Device
from scheduler.runtime.figures import Figures
from scheduler.runtime.measures import Orders
from scheduler.runtime.record import Allocated, Started
from scheduler.runtime.snapshot import instance_state

from .standing_in import preset, staged, until

MIB = 1 << 20
GPU = DeviceId("CUDA0")
SETUP = EngineSetup(EngineKind.COMMAND, declared={"Host": 100 * MIB, "CUDA0": 200 * MIB})


def spec(**fields: Any) -> LaunchSpec:
    return preset("a", engine=SETUP, memory_fingerprint="f", **fields)


def machine(host: int, gpu: int, *, pid: int = 1000) -> tuple[Device, ...]:
    """With what process `pid` has; the stand-in's first child is 1000."""
    return tuple(
        Device(DeviceReading(name, 4000 * MIB, 3000 * MIB, 0), "", kind, processes=((pid, size),))
        for name, kind, size in ((HOST, "Host", host * MIB), (GPU, "CUDA", gpu * MIB))
    )


def taken(stage: Any) -> dict[str, int]:
    (held,) = stage.owner.planner.ledger.held.values()
    return {device: size // MIB for device, size in held.own}


def told(stage: Any) -> list[dict[str, int]]:
    entries = [entry for entry in stage.entries if isinstance(entry, Allocated)]
    return [{device: size // MIB for device, size in entry.need.own} for entry in entries]


async def test_it_holds_what_was_declared_and_more_once_it_is_seen_to_take_more():
    async with staged(spec()) as stage:
        stage.owner.memory.seen(machine(0, 0))
        await stage.ask("a").run()
        assert taken(stage) == {"Host": 100, "CUDA0": 200}
        (started,) = [entry for entry in stage.entries if isinstance(entry, Started)]
        assert started.figures == "f"

        stage.owner.memory.seen(machine(40, 300))
        await until(lambda: len(told(stage)) == 1)
        assert taken(stage) == {"Host": 100, "CUDA0": 300}

        stage.owner.memory.seen(machine(130, 10))
        await until(lambda: len(told(stage)) == 2)
        assert taken(stage) == {"Host": 130, "CUDA0": 300}
        assert told(stage) == [{"Host": 40, "CUDA0": 300}, {"Host": 130, "CUDA0": 300}]


async def test_its_command_line_is_not_shown_to_clients():
    async with staged(spec(), preset("b")) as stage:
        stage.owner.memory.seen(machine(0, 0))
        args = {}
        for name in ("a", "b"):
            run = await stage.ask(name).run()
            state = instance_state(
                stage.owner, stage.owner.planner.instances[run.instance], now=0.0
            )
            args[name] = run.argv != (), state.args

        assert args == {"a": (True, []), "b": (True, list(run.argv))}


async def test_what_others_have_is_not_its_own():
    async with staged(spec()) as stage:
        stage.owner.memory.seen(machine(0, 0))
        await stage.ask("a").run()
        stage.owner.memory.seen(machine(4000, 4000, pid=999_999))
        await stage.owner.caught_up()

        assert told(stage) == []


async def test_what_was_declared_for_more_than_there_is_is_refused_with_the_figures():
    async with staged(spec()) as stage:
        stage.owner.memory.seen(
            (Device(DeviceReading(GPU, 150 * MIB, 150 * MIB, 0), "", "CUDA", processes=()),)
        )
        refused = await stage.ask("a").refusal()

    assert refused.code == "model_too_large"
    assert "CUDA0" in refused.message


def ran(figures: str, number: int, **actual: int) -> None:
    at = timezone.now() + timedelta(seconds=number)
    InstanceRecord.objects.create(preset="a", figures=figures, actual=actual, started_at=at)


@pytest.mark.django_db
def test_the_most_of_the_last_lives_counts_for_the_next_one():
    ran("f", 0, Host=999)  # too long ago
    for number in range(4):
        ran("f", 1 + number, Host=5, CUDA0=7 + number)
    ran("f", 9, Host=6)
    ran("other", 10, Host=50)

    found = learned_shapes([spec(), preset("b", memory_fingerprint="other")])

    assert [*found] == ["f"]
    assert found["f"].shape.sizes[0][1].own == (("CUDA0", 10), ("Host", 6))


@pytest.mark.django_db
def test_a_model_file_is_counted_as_mapped_beside_what_was_seen(tmp_path: Path):
    (tmp_path / "a.gguf").write_bytes(bytes(77))
    ran("f", 0, Host=5)

    found = learned_shapes([spec(model_path=str(tmp_path / "a.gguf"))])["f"].shape.sizes[0][1]

    assert found.own == (("Host", 5),)
    assert found.mapped == ((str(tmp_path / "a.gguf"), 77),)


@pytest.mark.django_db
def test_nothing_is_ordered_for_it_and_what_was_learned_replaces_what_was_declared(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("scheduler.runtime.measures.launch_specs", lambda: [spec()])
    ran("f", 0, Host=5)
    figures = Figures()
    before = figures.shape_of(spec())

    figures.keep_shapes(Orders().look(estimate={"a"}, first={"a"}).shapes)

    assert not Measurement.objects.exists()
    assert before is not None
    assert dict(before.shape.sizes[0][1].own) == SETUP.declared
    after = figures.shape_of(spec())
    assert after is not None
    assert after.shape.sizes[0][1].own == (("Host", 5),)


def test_what_would_fit_goes_by_what_is_declared():
    data, estimated = shape_data_of(spec())

    assert not estimated
    assert dict(shape_of(data).sizes[0][1].own) == SETUP.declared
