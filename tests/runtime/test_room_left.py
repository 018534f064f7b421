"""L2: a grant leaves room for the small ones that wait behind it, and they load beside it."""

from __future__ import annotations

from scheduler.core.sizes import HOST, DeviceReading, FixedShape, Need
from scheduler.runtime.devices.device import Device
from scheduler.runtime.figures import KnownShape
from scheduler.runtime.measures import Look
from scheduler.runtime.record import Started

from .standing_in import preset, staged, until

GIB = 1 << 30


def sized(*gib: int) -> KnownShape:
    """At contexts of 4,096 tokens, of twice as many, and so on."""
    sizes = ((4096 << step, Need(((HOST, size * GIB),))) for step, size in enumerate(gib))
    return KnownShape(FixedShape(tuple(sizes)))


async def test_what_waits_behind_a_grant_has_its_room_beside_it():
    names = "first", "wide", "small"
    specs = [preset(name, memory_fingerprint=name) for name in names]
    async with staged(*specs, ready=False) as stage:
        host = DeviceReading(HOST, 100 * GIB, 100 * GIB)
        stage.owner.memory.seen((Device(host, "Host", "a host"),))
        shapes = {"first": sized(10), "wide": sized(10, 40, 80), "small": sized(20)}
        stage.owner.shapes_changed(Look(tuple(specs), {}, shapes))
        asked = [stage.ask(name) for name in names]
        for number in range(len(names)):
            await until(lambda number=number: len(stage.children) > number)
            stage.children[number].say("ready")
        runs = [await each.run() for each in asked]

        granted = {e.preset: e.grant.need for e in stage.entries if isinstance(e, Started)}
        assert granted["wide"] == Need(((HOST, 40 * GIB),))
        assert [run.spec.preset for run in runs] == list(names)
        assert len(stage.children) == len(names)  # nobody went for anybody
