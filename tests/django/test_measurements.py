"""The rows of measurements: what is ordered, once each, and what becomes of it."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from models_registry import measurements
from models_registry.launch import launch_specs
from models_registry.measurements import LOST_AFTER, MOST_ATTEMPTS, RETRY_AFTER, due, total_bytes
from models_registry.models import Measurement, ModelFile, Preset
from scheduler import tasks

from .registry_rows import gguf, make_model_file, make_preset, use_stand_in_engine

pytestmark = pytest.mark.django_db

SHAPE = {"form": "fixed", "sizes": [], "unreported": 0}
ROWS = [{"device": "Host", "model": 100, "context": 20, "compute": 3, "weights": 90}]


@pytest.fixture(autouse=True)
def preset(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Preset:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    return make_preset("a", make_model_file(tmp_path / "a.gguf"), ctx_size=512)


def fingerprint(name: str = "a") -> str:
    return next(spec.memory_fingerprint for spec in launch_specs() if spec.preset == name)


def due_now(*, queue_is_empty: bool = True) -> list[str]:
    return due(launch_specs(), queue_is_empty=queue_is_empty)


def age(by: timedelta, *fields: str) -> None:
    """As if that much time had passed since."""
    for row in Measurement.objects.all():
        for field in fields:
            setattr(row, field, getattr(row, field) - by)
        row.save()


def measured() -> Measurement:
    due_now()
    claimed = measurements.claim(fingerprint())
    assert claimed
    assert measurements.store(claimed, ROWS, SHAPE, engine="e", way="fit stage", seconds=0.5)
    return Measurement.objects.get()


def failed() -> Measurement:
    claimed = measurements.claim(fingerprint())
    assert claimed
    assert measurements.fail(claimed, "it is broken", seconds=1.0)
    return Measurement.objects.get()


# The fingerprint ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [("ctx_size", 1024), ("n_gpu_layers", "3"), ("cache_type_k", "q8_0"), ("embeddings", True),
     ("extra_options", "fit-target = 100")],
)  # fmt: skip
def test_an_option_that_counts_changes_the_fingerprint(
    preset: Preset, field: str, value: Any
) -> None:
    before = fingerprint()
    setattr(preset, field, value)
    preset.save()

    assert fingerprint() != before


@pytest.mark.parametrize(
    ("field", "value"),
    [("threads", 3), ("pinned", True), ("stop_timeout", 1.5), ("extra_options", "temp = 0.1"),
     ("name", "another")],
)  # fmt: skip
def test_one_that_does_not_leaves_it(preset: Preset, field: str, value: Any) -> None:
    before = fingerprint()
    setattr(preset, field, value)
    preset.save()

    assert fingerprint(preset.name) == before


def test_another_file_at_the_same_path_changes_it(preset: Preset) -> None:
    before = fingerprint()
    gguf(Path(preset.model_file.path), size=400)

    assert fingerprint() != before


def test_another_engine_changes_it(settings: Settings, tmp_path: Path) -> None:
    before = fingerprint()
    program = Path(settings.CORRAL_LLAMA_SERVER)
    version = "[ $1 = --version ] && echo version: 9; exec cat"
    program.write_text(program.read_text().replace("exec cat", version))

    assert fingerprint() != before


def test_what_cannot_be_started_has_none(preset: Preset) -> None:
    Path(preset.model_file.path).unlink()

    assert fingerprint() == ""
    assert due_now() == []


# Orders ------------------------------------------------------------------------------------


def test_a_new_preset_is_ordered_once() -> None:
    assert due_now() == [fingerprint()]
    assert due_now() == []
    assert Measurement.objects.get().state == "pending"


def test_presets_that_differ_in_nothing_share_a_row(preset: Preset) -> None:
    make_preset("b", preset.model_file, ctx_size=512, threads=2)

    assert len(due_now()) == 1


def test_a_changed_file_is_ordered_anew(preset: Preset) -> None:
    measured()
    os.utime(preset.model_file.path, ns=(1, 1))

    assert due_now() == [fingerprint()]


def test_what_is_measured_is_not_ordered_again() -> None:
    measured()
    age(timedelta(days=300), "ordered_at", "measured_at")

    assert due_now() == []


def test_a_failed_one_is_tried_twice_more_after_growing_pauses() -> None:
    due_now()
    for pause in RETRY_AFTER:
        failed()
        age(pause - timedelta(seconds=5), "measured_at")
        assert due_now() == []
        age(timedelta(seconds=10), "measured_at")
        assert due_now() == [fingerprint()]
    assert RETRY_AFTER[0] < RETRY_AFTER[1]
    failed()
    age(timedelta(days=300), "measured_at")

    assert due_now() == []


def test_one_whose_job_was_lost_is_ordered_again_when_the_queue_is_empty() -> None:
    due_now()
    age(LOST_AFTER + timedelta(seconds=1), "ordered_at")

    assert due_now(queue_is_empty=False) == []
    assert due_now() == [fingerprint()]
    assert due_now() == []


def test_one_that_a_job_works_on_is_left_alone() -> None:
    due_now()
    measurements.claim(fingerprint())
    age(LOST_AFTER + timedelta(seconds=1), "ordered_at")

    assert due_now() == []


def test_what_was_interrupted_is_ordered_again_at_once() -> None:
    due_now()
    measurements.claim(fingerprint())

    assert measurements.interrupted() == [fingerprint()]
    assert measurements.interrupted() == []


def test_what_kills_its_process_each_time_is_given_up() -> None:
    due_now()
    for _ in range(MOST_ATTEMPTS - 1):
        measurements.claim(fingerprint())
        assert measurements.interrupted() == [fingerprint()]
    measurements.claim(fingerprint())

    assert measurements.interrupted() == []
    row = Measurement.objects.get()
    assert row.state == "failed"
    assert "died" in row.error


def test_a_person_may_order_it_anew_as_often_as_they_like() -> None:
    due_now()
    for _ in range(MOST_ATTEMPTS + 2):
        failed()
        measurements.order(launch_specs()[0])

    assert measurements.claim(fingerprint())


def test_figures_stay_until_there_are_others() -> None:
    row = measured()
    measurements.order(launch_specs()[0])
    row.refresh_from_db()

    assert row.state == "pending"
    assert total_bytes(row) == {"Host": 123}


# The job's side ----------------------------------------------------------------------------


def test_two_jobs_do_not_work_on_one_row() -> None:
    due_now()

    assert measurements.claim(fingerprint())
    assert measurements.claim(fingerprint()) is None


def test_what_is_done_is_not_claimed() -> None:
    measured()

    assert measurements.claim(fingerprint()) is None


def test_one_that_was_ordered_anew_meanwhile_is_not_finished_by_the_first() -> None:
    due_now()
    claimed = measurements.claim(fingerprint())
    assert claimed
    measurements.order(launch_specs()[0])

    assert not measurements.store(claimed, ROWS, SHAPE, engine="", way="", seconds=0.1)
    assert Measurement.objects.get().state == "pending"


def test_an_error_of_any_length_and_kind_is_kept() -> None:
    due_now()
    claimed = measurements.claim(fingerprint())
    assert claimed
    measurements.fail(claimed, "\0" + "x" * 100_000, seconds=1.0)

    assert 1000 < len(Measurement.objects.get().error) <= 4000


# Reading, and the night --------------------------------------------------------------------


def test_a_presets_measurement_is_that_of_its_options_as_they_are_now(preset: Preset) -> None:
    row = measured()
    assert measurements.of_preset(preset) == row
    preset.ctx_size = 2048
    preset.save()

    assert measurements.of_preset(preset) is None


def test_totals_are_by_device_and_none_for_a_failure() -> None:
    assert total_bytes(measured()) == {"Host": 123}

    Measurement.objects.update(state="failed")

    assert total_bytes(Measurement.objects.get()) == {}
    assert measurements.figures_of(launch_specs()) == {}


@pytest.mark.django_db(transaction=True)  # a task gives its connection back
def test_what_no_preset_has_had_for_long_goes_in_the_night(
    preset: Preset, settings: Settings
) -> None:
    settings.CORRAL_RECORD_DAYS = 30
    measured()
    old = timezone.now() - timedelta(days=31)
    for name, used_at in (("unused", old), ("of last week", timezone.now() - timedelta(days=7))):
        Measurement.objects.create(
            fingerprint=name, preset="gone", ordered_at=used_at, used_at=used_at
        )
    Measurement.objects.filter(fingerprint=fingerprint()).update(used_at=old)

    tasks.prune.call_local()

    kept = set(Measurement.objects.values_list("fingerprint", flat=True))
    assert kept == {fingerprint(), "of last week"}


# A draft model ------------------------------------------------------------------------------


def test_a_draft_model_is_measured_with_it_and_so_is_another_one(
    preset: Preset, tmp_path: Path
) -> None:
    alone = fingerprint()
    draft = make_model_file(tmp_path / "draft.gguf").path
    ModelFile.objects.filter(pk=preset.model_file.pk).update(draft=draft)

    [spec] = (spec for spec in launch_specs() if spec.preset == "a")
    gguf(Path(draft), size=9)

    assert spec.memory_options["model-draft"] == draft
    assert len({alone, spec.memory_fingerprint, fingerprint()}) == 3
