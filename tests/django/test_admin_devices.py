"""The devices' page: what each has, who holds it, and what Corral may use of it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from scheduler.models import DeviceLimit
from scheduler.protocol import DeviceInstance, DevicesState, DeviceState

from .control_socket import StandInScheduler
from .management import session_of, staff

pytestmark = pytest.mark.django_db

EVIL = '<img src=x onerror="alert(1)">'
LIST = "/admin/scheduler/devicelimit/"
GIB = 1 << 30
CUDA = DeviceState(
    "CUDA0", "NVIDIA H200", "CUDA", 24 * GIB, 20 * GIB, GIB, 3 * GIB, 0, GIB // 2, GIB, None,
    19 * GIB, utilisation=35, temperature=51, power=62.5,
    instances=[DeviceInstance(3, "alpha", 3 * GIB, 2 * GIB, 3 * GIB), DeviceInstance(4, "b", 0, 1)],
)  # fmt: skip


def opened(client: Client, **query: str) -> str:
    return client.get(LIST, query).content.decode()


def change_url(limit: DeviceLimit) -> str:
    return reverse("admin:scheduler_devicelimit_change", args=[limit.pk])


def cell(label: str, text: str) -> str:
    return f'data-label="{label}">{text}'


def test_each_device_tells_what_it_has_and_who_holds_it(
    admin_client: Client, scheduler: StandInScheduler
) -> None:
    scheduler.devices = DevicesState([CUDA])

    page = opened(admin_client)

    figures = {
        "Total": "24,576.0", "Free": "20,480.0", "Others": "1,024.0", "Held": "3,072.0",
        "Available": "19,456.0", "Margin": "1,024.0",
    }  # fmt: skip
    for label, figure in figures.items():
        assert cell(label, f"{figure} MiB") in page
    assert cell("Budget", "-") in page
    assert "512.0 MiB leaving" in page
    assert "35 % busy, 51 °C, 62 W" in page
    assert "alpha (3)" in page
    assert cell("Predicted", "2,048.0 MiB") in page
    assert cell("Reported", "3,072.0 MiB") in page
    assert cell("Reported", "-") in page


def test_figures_of_a_moment_ago_are_said_to_be_so(
    admin_client: Client, scheduler: StandInScheduler
) -> None:
    gone = DeviceState(
        "CUDA0", "", "CUDA", 0, 0, 0, 0, 0, 0, 0, 0, -1, stale=7.4, warning="it fell off the bus"
    )
    scheduler.devices = DevicesState([gone])

    page = opened(admin_client)

    assert "it fell off the bus; these figures are 7 s old" in page
    assert "Nothing is loaded" in page


def test_what_devices_and_presets_are_called_is_escaped(
    admin_client: Client, scheduler: StandInScheduler
) -> None:
    evil = DeviceState(
        EVIL, EVIL, EVIL, 1, 1, 0, 0, 0, 0, 0, None, 1, warning=EVIL,
        instances=[DeviceInstance(1, EVIL, 1, 1)],
    )  # fmt: skip
    scheduler.devices = DevicesState([evil])

    assert EVIL not in opened(admin_client)


def test_the_page_opens_while_the_scheduler_is_away(
    admin_client: Client, scheduler: StandInScheduler
) -> None:
    scheduler.socket.unlink()
    DeviceLimit.objects.create(device="CUDA0", budget=4096)

    page = opened(admin_client)

    assert "the scheduler does not answer" in page
    assert "4,096 MiB" in page


def test_a_devices_limits_are_one_click_away(
    admin_client: Client, scheduler: StandInScheduler
) -> None:
    scheduler.devices = DevicesState([CUDA])
    assert f"{LIST}add/?device=CUDA0" in opened(admin_client)
    new = admin_client.get(f"{LIST}add/", {"device": "CUDA0"})
    assert new.context["adminform"].form.initial["device"] == "CUDA0"

    limit = DeviceLimit.objects.create(device="cuda0")

    assert change_url(limit) in opened(admin_client)


def test_limits_are_saved_and_kept_in_the_history(
    admin_client: Client, scheduler: StandInScheduler
) -> None:
    admin_client.post(f"{LIST}add/", {"device": "CUDA0", "budget": "4096", "margin": ""})
    limit = DeviceLimit.objects.get()
    answer = admin_client.post(
        change_url(limit), {"device": "CUDA0", "budget": "0", "margin": "512"}
    )

    assert answer.status_code == 302
    limit.refresh_from_db()
    assert (limit.budget, limit.margin) == (0, 512)
    assert DeviceLimit.history.count() == 2


def test_a_name_that_no_device_has_is_refused_at_its_field(
    admin_client: Client, scheduler: StandInScheduler
) -> None:
    scheduler.devices = DevicesState([CUDA])

    answer = admin_client.post(f"{LIST}add/", {"device": "CUDA7", "budget": "1", "margin": ""})

    errors = answer.context["adminform"].form.errors
    assert errors == {"device": ["There is no such device here. Known: CUDA0."]}
    assert not DeviceLimit.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_scheduler_is_told_of_a_saved_limit(
    admin_client: Client, scheduler: StandInScheduler
) -> None:
    admin_client.post(f"{LIST}add/", {"device": "CUDA0", "budget": "4096", "margin": ""})

    assert scheduler.times("Reload") == 1


@pytest.mark.parametrize("new", [True, False])
def test_what_a_variable_sets_is_locked_with_the_reason_and_keeps_its_value(
    admin_client: Client, scheduler: StandInScheduler, settings: Any, new: bool
) -> None:
    settings.CORRAL_DEVICE_BUDGET = "CUDA0=50%"
    url = f"{LIST}add/?device=CUDA0"
    if not new:
        url = change_url(DeviceLimit.objects.create(device="CUDA0", budget=7))

    form = admin_client.get(url).context["adminform"].form
    admin_client.post(url, {"device": "CUDA0", "budget": "4096", "margin": "1"})

    assert [name for name, field in form.fields.items() if field.disabled] == ["budget"]
    assert "Set by CORRAL_DEVICE_BUDGET" in form.fields["budget"].help_text
    if not new:
        assert DeviceLimit.objects.values_list("budget", "margin").get() == (7, 1)


def test_the_list_shows_what_counts_where_a_variable_sets_it(
    admin_client: Client, scheduler: StandInScheduler, settings: Any
) -> None:
    settings.CORRAL_DEVICE_BUDGET = "CUDA0=50%"
    settings.CORRAL_MEMORY_MARGIN = "2048"
    DeviceLimit.objects.create(device="CUDA0", budget=7, margin=7)

    page = opened(admin_client)

    assert "50 % <span" in page
    assert "2,048.0 MiB <span" in page
    assert "7 MiB" not in page.split("corral-devices")[1]


def test_who_may_only_look_changes_nothing(scheduler: StandInScheduler) -> None:
    scheduler.devices = DevicesState([CUDA])
    limit = DeviceLimit.objects.create(device="CUDA0", budget=7)
    client = session_of(staff("scheduler.view_devicelimit"))

    page = opened(client)
    answer = client.post(change_url(limit), {"device": "CUDA0", "budget": "1"})

    assert "24,576.0 MiB" in page
    assert "Limits of CUDA0" not in page
    assert answer.status_code == 403
