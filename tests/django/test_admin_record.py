"""The record and the measurements in the admin: found, read, escaped, and cheap to list."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from models_registry.models import Measurement
from scheduler.models import DecisionRecord, InstanceRecord

pytestmark = pytest.mark.django_db
EVIL = '<img src=x onerror="alert(1)">'
INSTANCES = "/admin/scheduler/instancerecord/"
DECISIONS = "/admin/scheduler/decisionrecord/"
MEASUREMENTS = "/admin/models_registry/measurement/"


def an_instance(preset: str = "alpha", **fields: Any) -> InstanceRecord:
    fields = {"started_at": timezone.now(), "argv": ["llama-server", "a b"]} | fields
    return InstanceRecord.objects.create(preset=preset, **fields)


def a_decision(instance: InstanceRecord, **fields: Any) -> DecisionRecord:
    fields = {"kind": "start", "reason": "requested", "figures": {"waiters": 3}} | fields
    return DecisionRecord.objects.create(
        at=timezone.now(), preset=instance.preset, instance=instance, **fields
    )


def a_measurement(preset: str = "alpha", **fields: Any) -> Measurement:
    now = timezone.now()
    known = {"fingerprint": preset, "preset": preset, "ordered_at": now, "used_at": now}
    return Measurement.objects.create(**(known | fields))


def page_of(client: Client, url: str, **query: str) -> str:
    return client.get(url, query).content.decode()


def test_an_instance_tells_its_command_line_its_last_words_and_its_decisions(
    admin_client: Client,
) -> None:
    instance = an_instance(words="no such tensor", reason="crashed")
    decision = a_decision(instance)

    page = page_of(admin_client, f"{INSTANCES}{instance.pk}/change/")

    assert "llama-server &#x27;a b&#x27;" in page
    assert "no such tensor" in page
    assert f"{DECISIONS}{decision.pk}/change/" in page
    assert "start: requested" in page


@pytest.mark.parametrize("reason", ["hung", "idle", "out_of_memory", "failed_to_load"])
def test_why_an_instance_ended_is_in_the_list_and_can_be_asked_for(
    admin_client: Client, reason: str
) -> None:
    an_instance("gone", ended_at=timezone.now(), reason=reason, signal=9)
    an_instance("other", ended_at=timezone.now(), reason="evicted")

    page = page_of(admin_client, INSTANCES, reason=reason)

    assert f">{reason}</td>" in page
    assert ">other</a>" not in page


def test_an_instance_tells_where_it_was_and_what_it_took(admin_client: Client) -> None:
    placed = an_instance(
        placement="whole", layers={"CUDA0": 31}, context=8192,
        predicted={"CUDA0": 1 << 30, "Host": 1 << 20}, actual={"CUDA0": 1 << 31},
    )  # fmt: skip
    gone = an_instance("gone", placement="host", predicted={"Host": 1 << 20})

    page = page_of(admin_client, f"{INSTANCES}{placed.pk}/change/")
    other = page_of(admin_client, f"{INSTANCES}{gone.pk}/change/")

    assert "on CUDA0, 8,192 tokens" in page
    assert "CUDA0: predicted 1,024.0 MiB, reported 2,048.0 MiB" in page
    assert "Host: predicted 1.0 MiB, reported 0.0 MiB" in page
    assert "Host: predicted 1.0 MiB, reported -" in other


def test_a_decision_tells_its_figures_and_its_instance(admin_client: Client) -> None:
    instance = an_instance()
    decision = a_decision(instance)

    page = page_of(admin_client, f"{DECISIONS}{decision.pk}/change/")

    assert "waiters: 3" in page
    assert f"{INSTANCES}{instance.pk}/change/" in page


def test_instances_are_found_by_words_and_by_whether_they_run(admin_client: Client) -> None:
    an_instance("gone", ended_at=timezone.now(), words="out of memory")
    an_instance("running", started_at=timezone.now() - timedelta(days=1))

    by_words = page_of(admin_client, INSTANCES, q="memory")
    running = page_of(admin_client, INSTANCES, ended_at__isempty="1")

    assert ">gone</a>" in by_words
    assert ">running</a>" not in by_words
    assert ">running</a>" in running
    assert ">gone</a>" not in running


def test_decisions_are_found_by_preset_and_reason(admin_client: Client) -> None:
    a_decision(an_instance("alpha"), reason="requested")
    a_decision(an_instance("beta"), reason="evicted")

    assert ">beta</td>" not in page_of(admin_client, DECISIONS, q="alpha")
    assert ">alpha</td>" not in page_of(admin_client, DECISIONS, reason="evicted")


def test_a_measurement_tells_each_device(admin_client: Client) -> None:
    device = {"device": "Host", "model": 92 << 20, "context": 90 << 20, "compute": 17 << 20}
    row = a_measurement(state="measured", devices=[device])

    assert "Host 199.0 MiB" in page_of(admin_client, MEASUREMENTS)
    page = page_of(admin_client, f"{MEASUREMENTS}{row.pk}/change/")
    assert "Host: model 92.0 MiB, context 90.0 MiB, compute 17.0 MiB" in page


def test_what_children_and_files_say_is_escaped(admin_client: Client) -> None:
    instance = an_instance(EVIL, words=EVIL, argv=[EVIL])
    decision = a_decision(instance, figures={EVIL: EVIL})
    device = {"device": EVIL, "model": 1, "context": 1, "compute": 1}
    row = a_measurement(EVIL, state="measured", devices=[device], error=EVIL, engine=EVIL)
    urls = [
        INSTANCES, DECISIONS, MEASUREMENTS, f"{INSTANCES}{instance.pk}/change/",
        f"{DECISIONS}{decision.pk}/change/", f"{MEASUREMENTS}{row.pk}/change/",
    ]  # fmt: skip

    for url in urls:
        page = page_of(admin_client, url)
        assert "&lt;img" in page
        assert "<img src=x" not in page


def test_measurements_are_read_only(admin_client: Client) -> None:
    row = a_measurement()

    assert admin_client.get(f"{MEASUREMENTS}add/").status_code == 403
    assert admin_client.post(f"{MEASUREMENTS}{row.pk}/change/", {}).status_code == 403
    assert admin_client.post(f"{MEASUREMENTS}{row.pk}/delete/", {"post": "y"}).status_code == 403


@pytest.mark.parametrize("url", [INSTANCES, DECISIONS, MEASUREMENTS])
def test_a_list_costs_the_same_for_one_and_for_many(
    admin_client: Client, url: str, django_assert_max_num_queries: Any
) -> None:
    for number in range(40):
        a_decision(an_instance(f"p{number}"))
        a_measurement(f"p{number}")

    with django_assert_max_num_queries(9):
        assert "p39" in page_of(admin_client, url)


def test_a_rows_own_page_has_its_name_as_it_is_written(admin_client: Client) -> None:
    instance = an_instance("smollm2")

    page = page_of(admin_client, f"{INSTANCES}{instance.pk}/change/")

    assert f"smollm2 ({instance.pk})" in page.split("<h1")[1].split("</h1>")[0]
