"""What devices hold and what would fit, as programs ask for it."""

from __future__ import annotations

from dataclasses import asdict

import msgspec
import pytest

from models_registry import ports
from models_registry.gguf.header import UnreadableHeader
from models_registry.models import Preset
from proxy.keys import create_key
from scheduler.protocol import (
    DeviceInstance,
    Devices,
    DevicesState,
    DeviceState,
    ErrorBody,
    Fit,
    FitAnswer,
    Fitting,
)

from .management import Manager, session_of, staff
from .registry_rows import make_model_file

pytestmark = pytest.mark.django_db

NAME = "user/repo:Q4_K_M"
GIB = 1 << 30
CUDA = DeviceState(
    "CUDA0", "NVIDIA H200", "CUDA", 24 * GIB, 20 * GIB, GIB, 3 * GIB, 0, 0, GIB, None, 19 * GIB,
    utilisation=35, temperature=51, power=62.5,
    instances=[DeviceInstance(3, NAME, 3 * GIB, 2 * GIB, 3 * GIB)],
)  # fmt: skip
ANSWER = FitAnswer(
    NAME,
    True,
    Fitting("partial", {"CUDA0": 12}, 8192, {"CUDA0": 3 * GIB, "Host": GIB}, ["other"], True),
    Fitting(problem="it needs 80 GiB of CUDA0, which has 24"),
)


def test_devices_are_shown_as_the_scheduler_tells_them(manager, scheduler):
    scheduler.devices = DevicesState([CUDA])

    told = manager.get("/devices")

    assert (told.status, told.json) == (
        200,
        {"items": [msgspec.to_builtins(CUDA)], "count": 1},
    )
    assert scheduler.asked[-1] == Devices(1)


def test_what_would_fit_is_asked_for_the_preset_as_it_is_saved(manager, preset, scheduler):
    scheduler.fits = ANSWER

    told = manager.get(f"/presets/{NAME}/fit")

    assert told.status == 200
    assert {**told.json, "ladders": None} == asdict(ANSWER)
    assert scheduler.asked[-1] == Fit(1, NAME)


def test_what_would_fit_is_asked_for_an_edit_and_nothing_is_saved(manager, preset, scheduler):
    before = Preset.objects.values().get()
    body = {"preset": NAME, "parallel": 2, "placement": "now", "context_cap": 512}

    told = manager.post("/fit", body)

    assert told.status == 200
    [spec] = scheduler.edited
    assert (spec.preset, spec.parallel, spec.placement) == (NAME, 2, "now")
    assert (spec.context_cap, spec.memory_options["ctx-size"]) == (512, "4096")
    assert Preset.objects.values().get() == before


def test_an_edit_may_come_with_the_version_that_was_read(manager, preset, scheduler):
    assert manager.post("/fit", {"preset": NAME, "version": 1}).status == 200

    answer = manager.post("/fit", {"preset": NAME, "version": 0})

    assert (answer.status, answer.code, answer.param) == (409, "conflict", "version")


def test_a_new_preset_needs_a_file_and_no_name_yet(manager, scheduler, tmp_path):
    file = make_model_file(tmp_path / "new.gguf")

    told = manager.post("/fit", {"model_file": file.pk, "ctx_size": 2048})
    without = manager.post("/fit", {"ctx_size": 2048})

    assert told.status == 200
    [spec] = scheduler.edited
    assert (spec.preset, spec.model_path) == ("", file.path)
    assert (without.status, without.param) == (422, "model_file")
    assert not Preset.objects.exists()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"placement": "worst"}, "placement"),
        ({"cache_type_k": "q9_9"}, "cache_type_k"),
        ({"min_residency": 60.0}, "min_residency"),
        ({"model_file": 999}, "model_file"),
        ({"nonsense": 1}, "nonsense"),
        ({"replicas": 0}, "replicas"),
    ],
)
def test_an_edit_is_checked_as_if_it_were_saved(manager, preset, scheduler, fields, param):
    answer = manager.post("/fit", {"preset": NAME, **fields})

    assert (answer.status, answer.code, answer.param) == (422, "validation_failed", param)
    assert scheduler.edited == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("GET", "/presets/no/such/fit", None), ("POST", "/fit", {"preset": "no/such"})],
)
def test_what_does_not_exist_is_not_asked_for(manager, scheduler, method, path, body):
    answer = manager.ask(method, path, body)

    assert (answer.status, answer.code) == (404, "model_not_found")
    assert not scheduler.asked


def test_one_that_cannot_be_started_says_why(manager, preset, scheduler):
    Preset.objects.update(extra_options="host = 0.0.0.0")

    answer = manager.post("/fit", {"preset": NAME})

    assert answer.status == 422
    assert "host" in answer.message


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("GET", f"/presets/{NAME}/fit", None), ("POST", "/fit", {"preset": NAME})],
)
def test_a_device_that_is_not_there_is_refused(manager, preset, scheduler, method, path, body):
    """Also of a preset as it is saved: the engine ends at once for it, wherever it would fit."""
    Preset.objects.update(extra_options="device = CUDA9")

    answer = manager.ask(method, path, body)

    assert (answer.code, answer.param) == ("preset_invalid", "extra_options")
    assert "no such device here: CUDA9" in answer.message
    assert not scheduler.asked
    assert scheduler.edited == []


def test_what_the_scheduler_does_not_know_yet_is_estimated(manager, preset, scheduler):
    """As right after an edit."""
    unknown = Fitting(problem="it is being measured")
    scheduler.fits = FitAnswer(NAME, True, unknown, unknown)

    assert manager.get(f"/presets/{NAME}/fit").status == 200

    [spec] = scheduler.edited
    assert spec.preset == NAME


def test_a_file_that_has_gone_is_no_question_of_room(manager, preset, scheduler, tmp_path):
    (tmp_path / "a.gguf").unlink()

    answer = manager.post("/fit", {"preset": NAME, "ctx_size": 1024})

    assert answer.code == "preset_invalid"
    assert "a.gguf" in answer.message


def test_a_model_that_cannot_be_read_is_told_at_its_field(manager, preset, scheduler, monkeypatch):
    def unreadable(spec, *, ladders):
        raise UnreadableHeader("it counts 4,000,000,000 tensors")

    monkeypatch.setattr(ports.scheduler(), "fit_edited", unreadable)

    answer = manager.post("/fit", {"preset": NAME})

    assert (answer.code, answer.param) == ("preset_invalid", "model_file")
    assert "4,000,000,000 tensors" in answer.message


def test_who_may_not_write_options_may_not_ask_with_them(preset, scheduler):
    limited = Manager(client=session_of(staff("models_registry.view_preset")))

    plain = limited.post("/fit", {"preset": NAME, "ctx_size": 1024})
    options = limited.post("/fit", {"preset": NAME, "extra_options": "top-k = 7"})

    assert plain.status == 200
    assert (options.status, options.param) == (403, "extra_options")


@pytest.mark.parametrize("path", ["/devices", f"/presets/{NAME}/fit"])
def test_without_a_scheduler_nothing_is_invented(manager, preset, scheduler, path):
    scheduler.socket.unlink()

    assert (manager.get(path).status, manager.get(path).code) == (503, "scheduler_unavailable")


def test_a_refusal_keeps_its_code(manager, preset, scheduler):
    scheduler.refuses = ErrorBody("model_not_found", "no model is called so")

    assert manager.get(f"/presets/{NAME}/fit").code == "model_not_found"


def test_keys_for_inference_learn_nothing_of_devices(scheduler):
    assert Manager(create_key("app")).get("/devices").status == 403
