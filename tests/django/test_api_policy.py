"""A preset's scheduling policy in the management API."""

from __future__ import annotations

import pytest

from models_registry.models import Preset

from .test_policy import WHOLE

pytestmark = pytest.mark.django_db

PATH = "/presets/user/repo:Q4_K_M"
UNSET = dict.fromkeys(
    ("max_wait", "queue_limit", "min_residency", "keep_alive", "sleep_idle", "context_cap")
)


def test_a_new_preset_may_bring_all_of_it(manager, preset):
    body = {"name": "b", "model_file": preset.model_file.pk} | WHOLE

    made = manager.post("/presets", body)

    assert made.status == 201
    assert {name: made.json[name] for name in WHOLE} == WHOLE


def test_a_preset_that_says_nothing_of_it_leaves_it_to_the_gateway(manager, preset):
    told = manager.get(PATH).json

    assert {name: told[name] for name in WHOLE} == UNSET | {
        "priority": "normal",
        "readiness_probe": False,
        "placement": "best",
        "replicas": 1,
    }


def test_null_leaves_it_to_the_gateway_again(manager, preset):
    manager.patch(PATH, WHOLE)

    told = manager.patch(PATH, UNSET).json

    assert {name: told[name] for name in UNSET} == UNSET
    assert told["priority"] == "high"


@pytest.mark.parametrize("field", ["priority", "readiness_probe", "placement", "replicas"])
def test_what_is_always_set_takes_no_null(manager, preset, field):
    assert manager.patch(PATH, {field: None}).param == field


def test_whole_seconds_are_taken_as_well(manager, preset):
    assert manager.patch(PATH, {"max_wait": 5, "keep_alive": -1}).status == 200
    assert Preset.objects.values("max_wait", "keep_alive").get() == {
        "max_wait": 5.0,
        "keep_alive": -1.0,
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", "urgent"),
        ("priority", 2),
        ("max_wait", "5"),
        ("max_wait", -1),
        ("max_wait", 86_401),
        ("max_wait", float("nan")),
        ("queue_limit", 1.5),
        ("queue_limit", -1),
        ("min_residency", True),
        ("min_residency", 31.0),
        ("keep_alive", "5m"),
        ("keep_alive", -0.5),
        ("keep_alive", float("inf")),
        ("sleep_idle", 0),
        ("sleep_idle", 1.5),
        ("readiness_probe", 1),
        ("placement", "worst"),
        ("context_cap", 255),
        ("context_cap", "4096"),
        ("replicas", 0),
        ("replicas", 1.0),
        ("replicas", 65),
    ],
)
def test_nonsense_is_refused_at_its_field(manager, preset, field, value):
    before = Preset.objects.values().get()

    answer = manager.patch(PATH, {field: value})

    assert (answer.status, answer.code, answer.param) == (422, "validation_failed", field)
    assert Preset.objects.values().get() == before


def test_who_lowers_max_wait_below_the_residency_is_told_what_to_do(manager, preset):
    manager.patch(PATH, {"min_residency": 20.0, "max_wait": 20.0})

    answer = manager.patch(PATH, {"max_wait": 10.0})

    assert (answer.status, answer.param) == (422, "min_residency")
    assert "20 is more than max wait, 10: lower it, or raise max wait" in answer.message
