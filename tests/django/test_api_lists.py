"""Lists: a part at a time, the newest of the record first, and no filter that filters nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from models_registry.models import Measurement
from scheduler.models import DecisionRecord, InstanceRecord

pytestmark = pytest.mark.django_db

LISTS = [
    "/models", "/presets", "/aliases", "/measurements", "/instances", "/queue",
    "/record/instances", "/record/decisions", "/keys", "/teams",
]  # fmt: skip
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def record(db):
    for number in range(5):
        at = NOON + timedelta(hours=number)
        name = "a" if number % 2 else "b"
        child = InstanceRecord.objects.create(
            preset=name, started_at=at, reason="evicted" if number == 3 else "", argv=["--model"]
        )
        kind = "drain" if number == 4 else "start"
        DecisionRecord.objects.create(
            at=at, kind=kind, preset=name, instance=child, reason="asked", figures={"n": number}
        )


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=-1", "limit"),
        ("limit=x", "limit"),
        ("limit=1.5", "limit"),
        ("limit=" + "9" * 40, "limit"),
        ("offset=-1", "offset"),
        ("offset=" + "9" * 40, "offset"),
        ("offset=", "offset"),
        ("limitt=1", "limitt"),
        ("page=2", "page"),
    ],
)
def test_a_part_that_cannot_be_is_refused_at_its_field(manager, path, query, field):
    answer = manager.get(f"{path}?{query}")

    assert (answer.status, answer.code, answer.param) == (422, "validation_failed", field)


@pytest.mark.parametrize("path", LISTS)
def test_a_part_beyond_the_end_is_empty(manager, path):
    answer = manager.get(f"{path}?offset=1000000000&limit=200")

    assert (answer.status, answer.json["items"]) == (200, [])


def test_the_parts_make_the_whole(manager, record):
    parts = [manager.get(f"/record/decisions?limit=2&offset={n}").json for n in (0, 2, 4)]

    figures = [row["figures"]["n"] for part in parts for row in part["items"]]
    assert figures == [4, 3, 2, 1, 0]
    assert [part["count"] for part in parts] == [5, 5, 5]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("preset=a", [3, 1]),
        ("kind=drain", [4]),
        ("since=2026-01-31T14:00:00Z", [4, 3, 2]),
        ("since=2026-01-31T15:00:00%2B01:00", [4, 3, 2]),
        ("since=2026-01-31T14:00:00Z&preset=a", [3]),
        ("preset=nobody", []),
    ],
)
def test_decisions_are_found(manager, record, query, expected):
    rows = manager.get(f"/record/decisions?{query}").json["items"]

    assert [row["figures"]["n"] for row in rows] == expected


def test_instances_of_the_record_are_found(manager, record):
    ids = [row["id"] for row in manager.get("/record/instances").json["items"]]

    assert ids == sorted(ids, reverse=True)
    assert manager.get("/record/instances?kind=evicted").json["count"] == 1
    assert manager.get("/record/instances?since=2026-01-31T15:30:00Z").json["count"] == 1
    assert manager.get("/record/instances?preset=b").json["count"] == 3


def test_a_decision_names_its_instance(manager, record):
    decision = manager.get("/record/decisions?limit=1").json["items"][0]

    instance = manager.get("/record/instances?limit=1").json["items"][0]
    assert decision["instance"] == instance["id"]


@pytest.mark.parametrize(
    "moment",
    [
        "yesterday",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "0",
        "",
        "0001-01-01T00:00:00%2B14:00",
        "9999-12-31T23:59:59-14:00",
    ],
)
def test_a_moment_must_name_its_zone_and_be_near(manager, moment):
    for path in ("/record/decisions", "/record/instances"):
        answer = manager.get(f"{path}?since={moment}")

        assert (answer.status, answer.param) == (422, "since")


@pytest.mark.parametrize("path", ["/models/1", "/presets/a", "/status", "/presets/a/effective"])
def test_a_name_after_the_question_mark_is_not_ignored(manager, preset, path):
    if path != "/status":
        path = path.replace("/models/1", f"/models/{preset.model_file.pk}")
        path = path.replace("presets/a", f"presets/{preset.name}")

    assert manager.get(f"{path}?verbose=1").param == "verbose"


def test_measurements_are_found(manager, preset):
    rows = {
        state: Measurement.objects.create(
            fingerprint=state, preset="a", state=state, devices=devices,
            ordered_at=NOON, used_at=NOON,
        )
        for state, devices in (
            ("pending", []),
            ("measured", [{"device": "Host", "model": 5, "context": 3, "compute": 2}]),
            ("failed", []),
        )
    }  # fmt: skip

    listed = manager.get("/measurements").json

    assert [row["state"] for row in listed["items"]] == ["failed", "measured", "pending"]
    assert manager.get("/measurements?state=measured").json["count"] == 1
    assert manager.get(f"/measurements?preset={preset.name}").json["count"] == 0
    assert manager.get("/measurements?preset=nobody").code == "model_not_found"
    assert manager.get(f"/measurements/{rows['measured'].pk}").json["total"] == {"Host": 10}
    assert manager.get("/measurements/999").code == "not_found"


def test_the_measurement_of_a_preset_is_the_one_of_its_options_now(manager, preset):
    from models_registry.launch import launch_spec_of

    fingerprint = launch_spec_of(preset).memory_fingerprint
    Measurement.objects.create(
        fingerprint=fingerprint, preset="another", ordered_at=NOON, used_at=NOON
    )

    found = manager.get(f"/measurements?preset={preset.name}").json["items"]

    assert [row["fingerprint"] for row in found] == [fingerprint]
