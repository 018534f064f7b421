"""A preset's scheduling policy: from the row, by every door, to what the scheduler is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from models_registry import history
from models_registry.describing import described
from models_registry.launch import LaunchSpec, launch_spec_of
from models_registry.models import Preset
from models_registry.options import policy
from scheduler.core.values import PresetName, PresetSpec, Priority
from scheduler.runtime.offer import Offer

from .registry_rows import (
    FakeScheduler,
    make_model_file,
    use_scheduler,
    use_stand_in_engine,
)

pytestmark = pytest.mark.django_db

WHOLE = {
    "priority": "high",
    "max_wait": 20.0,
    "queue_limit": 8,
    "min_residency": 5.0,
    "keep_alive": 300.0,
    "sleep_idle": 60,
    "readiness_probe": True,
    "placement": "now",
    "context_cap": 16384,
    "replicas": 2,
}


@pytest.fixture(autouse=True)
def _engine(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    use_scheduler(monkeypatch, FakeScheduler())


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Preset]:
    """A preset `a`, neither checked nor saved."""
    model_file = make_model_file(tmp_path / "a.gguf")
    return lambda **fields: Preset(name="a", model_file=model_file, **fields)


def saved(preset: Preset, **fields: Any) -> Preset:
    for name, value in fields.items():
        setattr(preset, name, value)
    preset.full_clean()
    preset.save()
    return preset


def refused(preset: Preset) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as told:
        preset.full_clean()
    return told.value.message_dict


def without_sleep(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Raises ValueError when the engine is not told to sleep after a minute."""
    at = argv.index("--sleep-idle-seconds")
    if argv[at + 1] != "60":
        raise ValueError(argv[at + 1])
    return argv[:at] + argv[at + 2 :]


def offered(spec: LaunchSpec) -> PresetSpec:
    return Offer.of(1, [spec], 10.0).preset_spec(spec, None)


# What the scheduler is told -----------------------------------------------------------------


def test_a_new_preset_leaves_all_of_it_to_the_gateway(made: Callable[..., Preset]) -> None:
    spec = launch_spec_of(saved(made()))

    assert offered(spec) == PresetSpec(
        PresetName("a"),
        fingerprint=spec.fingerprint,
        parallel=4,
        stop_timeout_seconds=10.0,
        measuring=True,  # nothing is known yet of what it takes
    )
    assert not spec.readiness_probe
    assert (spec.placement, spec.context_cap, spec.replicas) == ("best", None, 1)


def test_the_core_is_told_what_the_row_says(made: Callable[..., Preset]) -> None:
    spec = launch_spec_of(saved(made(), **WHOLE))
    told = offered(spec)

    assert (told.priority, told.queue_limit) == (Priority.HIGH, 8)
    assert (told.max_wait_seconds, told.min_residency_seconds) == (20.0, 5.0)
    assert told.keep_alive_seconds == 300.0
    assert spec.readiness_probe
    assert (spec.placement, spec.context_cap, spec.replicas) == ("now", 16384, 2)


@pytest.mark.parametrize("priority", ["low", "normal", "high"])
def test_every_class_of_the_form_is_one_of_the_cores(
    made: Callable[..., Preset], priority: str
) -> None:
    told = offered(launch_spec_of(saved(made(), priority=priority)))

    assert told.priority.name.lower() == priority


def test_a_preset_that_cannot_be_started_keeps_its_policy(
    made: Callable[..., Preset], settings: Any
) -> None:
    preset = saved(made(), **WHOLE)
    settings.CORRAL_LLAMA_SERVER = "/nowhere/llama-server"

    spec = launch_spec_of(preset)

    assert spec.problem
    assert (offered(spec).priority, offered(spec).max_wait_seconds) == (Priority.HIGH, 20.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [(name, value) for name, value in WHOLE.items() if name not in ("sleep_idle", "context_cap")],
)
def test_an_edit_of_it_leaves_what_runs_up_to_date(
    made: Callable[..., Preset], field: str, value: Any
) -> None:
    preset = saved(made())
    before = launch_spec_of(preset)

    after = launch_spec_of(saved(preset, **{field: value}))

    assert after != before
    assert after.argv == before.argv
    assert after.fingerprint == before.fingerprint
    assert after.memory_fingerprint == before.memory_fingerprint != ""


def test_another_cap_of_the_context_is_measured_while_what_runs_stays_up_to_date(
    made: Callable[..., Preset],
) -> None:
    preset = saved(made())
    before = launch_spec_of(preset)

    after = launch_spec_of(saved(preset, context_cap=16384))

    assert (after.argv, after.fingerprint) == (before.argv, before.fingerprint)
    assert after.memory_fingerprint != before.memory_fingerprint


def test_a_min_residency_counts_up_to_a_max_wait_that_was_lowered_since(
    made: Callable[..., Preset], settings: Any
) -> None:
    preset = saved(made(), min_residency=20.0)
    settings.CORRAL_MAX_WAIT = 5.0

    assert launch_spec_of(preset).min_residency_seconds == 5.0


# Sleeping, which is the child's own ---------------------------------------------------------


def test_sleeping_is_an_option_of_the_child_that_needs_no_new_measurement(
    made: Callable[..., Preset],
) -> None:
    preset = saved(made())
    before = launch_spec_of(preset)

    after = launch_spec_of(saved(preset, sleep_idle=60))

    assert without_sleep(after.argv) == before.argv
    assert after.fingerprint != before.fingerprint
    assert after.memory_fingerprint == before.memory_fingerprint


@pytest.mark.parametrize("layer", ["column", "line", "command line"])
def test_a_pinned_preset_does_not_sleep_whoever_says_so(
    made: Callable[..., Preset], settings: Any, layer: str
) -> None:
    preset = made(sleep_idle=60) if layer == "column" else made()
    if layer == "line":
        preset.extra_options = "sleep-idle-seconds = 60"
    elif layer == "command line":
        settings.CORRAL_COMMAND_LINE = {"sleep-idle-seconds": "60"}

    unpinned = launch_spec_of(saved(preset)).argv
    pinned = launch_spec_of(saved(preset, pinned=True)).argv

    assert without_sleep(unpinned) == pinned
    assert "sleep-idle-seconds" not in str(described(preset))


def test_sleeping_is_set_in_one_place_only(made: Callable[..., Preset]) -> None:
    told = refused(made(sleep_idle=60, extra_options="sleep-idle-seconds = 30"))

    assert list(told) == ["extra_options"]
    assert "the field for sleep-idle-seconds is set as well" in told["extra_options"][0]


@pytest.mark.parametrize("line", ["sleep-idle-seconds = 0", "sleep-idle-seconds = -2"])
def test_a_sleep_that_the_engine_would_not_start_with_is_refused(
    made: Callable[..., Preset], line: str
) -> None:
    assert list(refused(made(extra_options=line))) == ["extra_options"]


def test_a_line_may_say_that_it_never_sleeps(made: Callable[..., Preset]) -> None:
    saved(made(extra_options="sleep-idle-seconds = -1"))

    assert Preset.objects.get().extra_options


# What is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("priority", value) for value in ("urgent", "", "HIGH")],
        *[("max_wait", value) for value in (-1, 86_401)],
        ("min_residency", -1),
        *[("keep_alive", value) for value in (-2, -0.5, 31_536_001, float("nan"))],
        *[("sleep_idle", value) for value in (0, -1, 2**31)],
        *[("queue_limit", value) for value in (-1, 1_000_001)],
        ("stop_timeout", 86_401),
        *[("placement", value) for value in ("worst", "", "BEST")],
        *[("context_cap", value) for value in (0, 255, 2**31)],
        *[("replicas", value) for value in (0, 65, None)],
    ],
)
def test_nonsense_is_refused_at_its_field(
    made: Callable[..., Preset], field: str, value: object
) -> None:
    assert list(refused(made(**{field: value}))) == [field]


@pytest.mark.parametrize(
    "fields",
    [
        {"keep_alive": -1},
        {"keep_alive": 0, "queue_limit": 0, "max_wait": 0},
        {"min_residency": 30},
        {"min_residency": 7.5, "max_wait": 7.5},
        {"keep_alive": 31_536_000, "max_wait": 86_400, "sleep_idle": 1},
        {"context_cap": 256, "replicas": 64},
        {"context_cap": 2**31 - 1, "replicas": 1},
    ],
)
def test_the_ends_of_what_may_be_said_are_saved(
    made: Callable[..., Preset], fields: dict[str, Any]
) -> None:
    saved(made(**fields))

    assert {name: getattr(Preset.objects.get(), name) for name in fields} == fields


@pytest.mark.parametrize(
    ("fields", "gateway", "at", "words"),
    [
        ({"min_residency": 60.0}, {}, "min_residency", "the gateway's max wait, 30 (CORRAL_MAX_"),
        ({"min_residency": 9.0, "max_wait": 8.5}, {}, "min_residency", "more than max wait, 8.5"),
        ({"max_wait": 5.0}, {"CORRAL_MIN_RESIDENCY": 10.0}, "max_wait", "min residency, 10 ("),
    ],
)
def test_a_model_cannot_stay_longer_than_its_requests_wait(
    made: Callable[..., Preset],
    settings: Any,
    fields: dict[str, float],
    gateway: dict[str, float],
    at: str,
    words: str,
) -> None:
    for name, value in gateway.items():
        setattr(settings, name, value)

    told = refused(made(**fields))

    assert list(told) == [at]
    assert words in told[at][0]


@pytest.mark.parametrize("field", ["priority", "placement"])
def test_no_row_has_a_class_that_the_scheduler_does_not_know(
    made: Callable[..., Preset], field: str
) -> None:
    preset = saved(made())

    with pytest.raises(IntegrityError), transaction.atomic():
        Preset.objects.filter(pk=preset.pk).update(**{field: "urgent"})


# The pages ----------------------------------------------------------------------------------


def test_the_form_says_what_counts_where_nothing_is_set(
    admin_client: Client, made: Callable[..., Preset], settings: Any
) -> None:
    settings.CORRAL_QUEUE_LIMIT_PER_MODEL = 64
    preset = saved(made())

    page = admin_client.get(reverse("admin:models_registry_preset_change", args=[preset.pk]))

    fields = page.context["adminform"].form.fields
    told = {name: fields[name].widget.attrs.get("placeholder") for name in WHOLE}
    assert told == {
        "priority": None,
        "max_wait": "unset: 30 (gateway)",
        "queue_limit": "unset: 64 (gateway)",
        "min_residency": "unset: 0 (gateway)",
        "keep_alive": "unset: until its room is needed (gateway)",
        "sleep_idle": "unset: the engine's own default",
        "readiness_probe": None,
        "placement": None,
        "context_cap": "unset: 8192 (gateway)",
        "replicas": None,
    }
    assert fields["stop_timeout"].widget.attrs["placeholder"] == "unset: 10 (gateway)"


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("queue_limit", 0, "no limit of its own"),
        ("queue_limit", 1_500_000, "1500000"),
        ("keep_alive", None, "until its room is needed"),
        ("keep_alive", 0.0, "0"),
        ("max_wait", 2.5, "2.5"),
    ],
)
def test_the_gateways_own_is_told_as_people_write_it(
    settings: Any, field: str, value: float | None, told: str
) -> None:
    setattr(settings, policy.GATEWAYS_OWN[field], value)

    assert policy.gateways_own(field) == told


def test_all_of_it_is_edited_on_the_presets_page(
    admin_client: Client, made: Callable[..., Preset]
) -> None:
    preset = saved(made())
    url = reverse("admin:models_registry_preset_change", args=[preset.pk])
    sent = {name: str(value) for name, value in WHOLE.items()} | {"readiness_probe": "on"}

    answer = admin_client.post(
        url,
        sent
        | {
            "name": "a",
            "engine": "llama_server",
            "model_file": preset.model_file.pk,
            "seen_version": preset.version,
        }
        | {"aliases-TOTAL_FORMS": 0, "aliases-INITIAL_FORMS": 0},
    )

    assert answer.status_code == 302
    assert Preset.objects.values(*WHOLE).get() == WHOLE


def test_the_history_tells_of_it_and_goes_back_to_it(made: Callable[..., Preset]) -> None:
    preset = saved(made())
    first = history.records_of(Preset, preset.pk).get()
    saved(preset, priority="low", keep_alive=0.0)

    told = str(history.since(preset, first.version)[0])
    saved(history.row_as_it_was(first, preset))

    assert "keep alive from unset to 0.0" in told
    assert "priority from normal to low" in told
    assert Preset.objects.values("priority", "keep_alive").get() == {
        "priority": "normal",
        "keep_alive": None,
    }
