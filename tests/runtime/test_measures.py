"""When the scheduler looks for measurements to order, and that a failure ends nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

import pytest
from django.db import OperationalError
from django.utils import timezone

from models_registry.measurements import StoredShape
from scheduler.measuring.ordering import QueueAway
from scheduler.runtime.measures import Look, Measures, Orders

from .standing_in import PATIENCE, until


@dataclass
class FakeOrders:
    fails: list[Exception] = field(default_factory=list)
    looks: int = 0

    def look(self, estimate: Collection[str] = (), first: Collection[str] = ()) -> Look:
        self.looks += 1
        if self.fails:
            raise self.fails.pop(0)
        return Look((), {"f": {"Host": self.looks}})

    def close(self) -> None:
        pass


async def watched(orders: FakeOrders, every: float, condition, during=lambda measures: None):
    measures = Measures(orders, look_every_seconds=every)
    found: list[Look] = []
    task = asyncio.create_task(measures.watch(found.append))
    try:
        async with asyncio.timeout(PATIENCE):
            await until(lambda: orders.looks)
            during(measures)
            await until(lambda: condition(found))
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await measures.close()
    return found


async def test_it_looks_at_once_and_again_after_its_time():
    found = await watched(FakeOrders(), 0.01, lambda found: len(found) >= 3)

    assert [look.figures["f"]["Host"] for look in found[:3]] == [1, 2, 3]


async def test_a_change_of_the_registry_hurries_it():
    await watched(
        FakeOrders(), 3600, lambda found: len(found) == 2, lambda measures: measures.look_soon()
    )


async def test_whatever_keeps_it_from_looking_it_looks_again():
    orders = FakeOrders(fails=[OperationalError("locked"), QueueAway("gone"), ValueError("help")])
    found = await watched(orders, 0.01, bool)

    assert found[0].figures == {"f": {"Host": 4}}


def test_a_row_of_another_release_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    known = {"form": "fixed", "sizes": [{"context": 1, "need": {"own": {}}}], "unreported": 0}
    other = {
        "form": "open", "contexts": [1], "devices": [],
        "layers": [{"weights": 1, "cache": [1], "largest": 1}],
        "file": "", "mapped": [0, 0], "device_compute": [1], "host_compute": [[1], [1]],
        "spread_compute": [[], []], "host_fixed": 0, "first_device_fixed": [], "receiving": [],
        "unreported": 0,
        "measured": [{"kind": "sideways", "layers": {}, "needs": [{"own": {}}]}],
    }  # fmt: skip
    orders = Orders()
    now = timezone.now()

    assert orders._shape("a", StoredShape(other, False, now), {}) is None
    assert "cannot be read" in caplog.text
    assert orders._shape("b", StoredShape(known, False, now), {}) is not None
