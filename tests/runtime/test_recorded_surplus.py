"""What was taken beyond a measurement is in the first grant of the next life."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from models_registry.measurements import StoredShape
from scheduler.core.sizes import HOST, DeviceReading, FixedShape, Need
from scheduler.models import InstanceRecord
from scheduler.runtime.devices.device import Device
from scheduler.runtime.figures import KnownShape
from scheduler.runtime.measures import Look, Orders
from scheduler.runtime.record import Started
from scheduler.runtime.recorded_surplus import recorded_surplus

from .standing_in import preset, staged

SHAPE = {"form": "fixed", "sizes": [{"context": 1, "need": {"own": {}}}], "unreported": 0}
NOW = timezone.now()


def ran(figures: str, predicted: int, actual: int | None, **fields: Any) -> None:
    InstanceRecord.objects.create(
        preset="p",
        figures=figures,
        predicted={"Host": predicted},
        actual={} if actual is None else {"Host": actual},
        **{"started_at": NOW, **fields},
    )


@pytest.mark.django_db
def test_it_is_what_the_last_instance_took_beyond_its_measurement(django_assert_num_queries):
    ran("a", 5, 100)
    ran("a", 5, 7)
    ran("a", 5, None)  # it said nothing
    ran("less", 5, 4)
    ran("", 5, 9)  # granted by a guess
    ran("corrected", 8, 6, surplus={"Host": 3})
    ran("still more", 8, 9, surplus={"Host": 3})
    ran("elsewhere", 5, 5, surplus={"CUDA0": 2})

    with django_assert_num_queries(1):
        found = recorded_surplus()

    assert {figures: dict(each.bytes) for figures, each in found.items()} == {
        "a": {"Host": 2}, "corrected": {"Host": 3}, "still more": {"Host": 4},
        "elsewhere": {"CUDA0": 2},
    }  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(("measured_after", "surplus"), [(-1, (("Host", 2),)), (1, ())])
def test_of_figures_that_were_measured_again_since_nothing_is_known(
    measured_after: int, surplus: tuple[object, ...]
):
    ran("f", 5, 7)
    orders = Orders()
    orders.look()

    known = orders._shape("f", StoredShape(SHAPE, False, NOW + timedelta(measured_after)), {})

    assert known is not None
    assert known.surplus == surplus


async def test_it_reaches_the_first_grant_which_says_by_which_measurement_it_is():
    host = DeviceReading(HOST, 9, 9)
    for estimated, figures in ((False, "f"), (True, "")):
        async with staged(preset("a", memory_fingerprint="f")) as stage:
            shape = FixedShape(((0, Need(((HOST, 5),))),))
            known = KnownShape(shape, estimated, surplus=((HOST, 2),))
            stage.owner.memory.seen((Device(host, "Host", "a host"),))
            specs = tuple(stage.owner.offer.specs.values())
            stage.owner.shapes_changed(Look(specs, {}, {"f": known}))
            await stage.ask("a").run()

        [started] = [entry for entry in stage.entries if isinstance(entry, Started)]
        assert started.grant.need == Need(((HOST, 7),))
        assert (started.grant.surplus, started.figures) == (((HOST, 2),), figures)
