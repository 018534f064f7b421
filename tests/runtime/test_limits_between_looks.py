"""A limit that is set between two looks counts at once, by figures from which nothing follows."""

from __future__ import annotations

from scheduler.core.sizes import DeviceId, DeviceReading, FixedShape, Need
from scheduler.runtime.devices.device import Device
from scheduler.runtime.devices.limits import Limits
from scheduler.runtime.figures import KnownShape
from scheduler.runtime.measures import Look

from .standing_in import preset, staged, until

GIB = 1 << 30
GPU = DeviceId("Vulkan0")


async def test_what_others_use_is_not_taken_for_ours_that_came_after_the_look():
    spec = preset("a", memory_fingerprint="f")
    shape = KnownShape(FixedShape(((0, Need(((GPU, 5 * GIB),))),)))
    async with staged(spec) as stage:
        stage.owner.memory.seen((Device(DeviceReading(GPU, 20 * GIB, 10 * GIB), "", "Vulkan"),))
        stage.owner.shapes_changed(Look((spec,), {}, {"f": shape}))
        await stage.ask("a").run()

        stage.owner.memory.limit(Limits.parse("Vulkan0=18GiB", "Vulkan0=0"))
        ledger = stage.owner.planner.ledger
        await until(lambda: ledger.devices[GPU].reading.budget is not None)

        assert ledger.devices[GPU].external == 10 * GIB
