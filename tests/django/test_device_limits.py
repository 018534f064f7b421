"""What Corral may use of devices: rows, beneath what variables and the command line say."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from models_registry.revision import registry_revision
from scheduler.core.sizes import HOST, DeviceId
from scheduler.limits import device_limits, set_by
from scheduler.models import DeviceLimit
from scheduler.protocol import DevicesState, DeviceState

from .management import Manager, session_of, staff

pytestmark = pytest.mark.django_db

MIB = 1 << 20
GIB = 1 << 30
CUDA0, CUDA1 = DeviceId("CUDA0"), DeviceId("CUDA1")


@pytest.fixture(autouse=True)
def _nothing_set(settings: Any) -> None:
    settings.CORRAL_DEVICE_BUDGET = settings.CORRAL_MEMORY_MARGIN = ""


def counts(device: DeviceId, total: int = 24 * GIB) -> tuple[int | None, int]:
    limits = device_limits()
    return limits.budget(device, total), limits.margin(device, total)


def test_without_a_word_there_is_no_budget_and_the_usual_margin() -> None:
    assert counts(CUDA0) == (None, GIB)
    assert counts(HOST, 32 * GIB) == (None, 2 * GIB)


def test_a_row_says_it_for_its_device_alone() -> None:
    DeviceLimit.objects.create(device="cuda0", budget=20480, margin=0)

    assert counts(CUDA0) == (20 * GIB, 0)
    assert counts(CUDA1) == (None, GIB)


def test_half_a_row_leaves_the_other_half_as_it_was() -> None:
    DeviceLimit.objects.create(device="CUDA0", budget=0)
    DeviceLimit.objects.create(device="CUDA1", margin=2048)

    assert counts(CUDA0) == (0, GIB)
    assert counts(CUDA1) == (None, 2 * GIB)


def test_a_budget_larger_than_the_device_is_the_device() -> None:
    DeviceLimit.objects.create(device="CUDA0", budget=2**31 - 1, margin=2**31 - 1)

    assert counts(CUDA0) == (24 * GIB, 24 * GIB)


def test_a_variable_is_above_the_row_for_the_devices_that_it_names(settings: Any) -> None:
    settings.CORRAL_DEVICE_BUDGET = "CUDA0=50%"
    settings.CORRAL_MEMORY_MARGIN = "CUDA1=512"
    for device in ("CUDA0", "CUDA1"):
        DeviceLimit.objects.create(device=device, budget=1024, margin=64)

    assert counts(CUDA0) == (12 * GIB, 64 * MIB)
    assert counts(CUDA1) == (GIB, 512 * MIB)


def test_one_margin_for_all_is_above_every_row(settings: Any) -> None:
    settings.CORRAL_MEMORY_MARGIN = "2048,Host=4096"
    for device in ("CUDA0", "Host"):
        DeviceLimit.objects.create(device=device, margin=64)

    assert counts(CUDA0)[1] == counts(CUDA1)[1] == 2 * GIB
    assert counts(HOST)[1] == 4 * GIB


def test_it_is_said_what_sets_what_no_row_can_change(settings: Any) -> None:
    settings.CORRAL_DEVICE_BUDGET = "CUDA0=20GiB"
    settings.CORRAL_MEMORY_MARGIN = "Host=4096"

    assert set_by("cuda0") == {"budget": "CORRAL_DEVICE_BUDGET"}
    assert list(set_by("Host")) == ["margin"]
    assert "--models-memory-margin" in set_by("Host")["margin"]
    assert set_by("CUDA1") == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"device": ""},
        {"device": "0"},
        {"device": "a b"},
        {"device": "x" * 65},
        {"budget": -1},
        {"margin": -1},
        {"margin": 2**31},
    ],
)
def test_nonsense_is_refused_at_its_field(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as told:
        DeviceLimit(**({"device": "CUDA0"} | fields)).full_clean()

    assert list(told.value.message_dict) == list(fields)


def test_a_device_has_one_row_however_it_is_written() -> None:
    DeviceLimit.objects.create(device="CUDA0")

    with pytest.raises(ValidationError, match="There are limits for this device already"):
        DeviceLimit(device="cuda0").full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        DeviceLimit.objects.create(device="Cuda0")


def test_every_change_of_a_row_is_one_for_the_scheduler() -> None:
    seen = [registry_revision()]
    limit = DeviceLimit.objects.create(device="CUDA0")
    seen.append(registry_revision())
    limit.budget = 1
    limit.save()
    seen.append(registry_revision())
    limit.delete()
    seen.append(registry_revision())

    assert seen == sorted(set(seen))


# By programs --------------------------------------------------------------------------------


def test_a_program_sets_it_and_unsets_it(manager: Manager) -> None:
    made = manager.patch("/devices/CUDA0", {"budget": 20480})
    changed = manager.patch("/devices/cuda0", {"margin": 64, "budget": None})

    assert (made.status, made.json["budget"], made.json["margin"]) == (200, 20480, None)
    assert changed.json == {"device": "CUDA0", "budget": None, "margin": 64, "set_by": {}}
    assert DeviceLimit.objects.values("device", "budget", "margin").get() == {
        "device": "CUDA0",
        "budget": None,
        "margin": 64,
    }
    reasons = [record.history_change_reason for record in DeviceLimit.history.all()]
    assert [reason.split(" (")[0] for reason in reasons] == ["the admin key robot"] * 2


def test_a_program_is_told_what_counts_above_it(manager: Manager, settings: Any) -> None:
    settings.CORRAL_DEVICE_BUDGET = "CUDA0=20GiB"

    told = manager.patch("/devices/CUDA0", {"budget": 1}).json

    assert (told["budget"], told["set_by"]) == (1, {"budget": "CORRAL_DEVICE_BUDGET"})


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("CUDA0", {"budget": -1}, "budget"),
        ("CUDA0", {"margin": 1.5}, "margin"),
        ("CUDA0", {"total": 1}, "total"),
        ("0", {"budget": 1}, "device"),
        ("a%20b", {}, "device"),
    ],
)
def test_a_program_is_refused_nonsense(
    manager: Manager, path: str, body: dict[str, Any], param: str
) -> None:
    answer = manager.patch(f"/devices/{path}", body)

    assert (answer.status, answer.param) == (422, param)
    assert not DeviceLimit.objects.exists()


def test_a_name_that_no_device_has_is_refused_with_those_there_are(
    manager: Manager, scheduler: Any
) -> None:
    there = [DeviceState(name, "", "CUDA", GIB, GIB, 0, 0, 0, 0, 0, None, GIB) for name in "AB"]
    scheduler.devices = DevicesState(there)
    DeviceLimit.objects.create(device="Away")

    answer = manager.patch("/devices/CUDA7", {"budget": 1})

    assert (answer.status, answer.param) == (422, "device")
    assert "no such device here. Known: A, Away, B" in answer.message
    assert {manager.patch(f"/devices/{name}", {"budget": 1}).status for name in ("b", "away")} == {
        200
    }


def test_without_a_scheduler_any_name_is_taken(manager: Manager, scheduler: Any) -> None:
    scheduler.socket.unlink()

    assert manager.patch("/devices/CUDA7", {"budget": 1}).status == 200


def test_who_may_look_may_not_limit(scheduler: Any) -> None:
    limited = Manager(client=session_of(staff("scheduler.view_devicelimit")))

    assert limited.patch("/devices/CUDA0", {"budget": 1}).status == 403
