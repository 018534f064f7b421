"""What would fit on a preset's page, and how what runs was placed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from models_registry.models import Preset
from models_registry.ports import (
    DeviceRoom,
    FitAnswer,
    FitLadders,
    FitStep,
    Fitting,
    PresetStatus,
    Running,
    SchedulerRefused,
    SchedulerUnavailable,
)

from .management import session_of, staff
from .registry_rows import (
    FakeScheduler,
    make_model_file,
    make_preset,
    use_scheduler,
    use_stand_in_engine,
)
from .test_admin_preset_page import opened, sent

pytestmark = pytest.mark.django_db

EVIL = '<img src=x onerror="alert(1)">'
GIB = 1 << 30
PARTLY = Fitting("partial", {"CUDA0": 12}, 8192, {"CUDA0": 3 * GIB, "Host": GIB}, ["other"], True)
WHOLE = Fitting("whole", {"CUDA0": 31}, 32768, {"CUDA0": 5 * GIB})
ANSWER = FitAnswer("first", False, PARTLY, WHOLE)
FETCHED = {"X-Requested-With": "fetch"}


@pytest.fixture(autouse=True)
def scheduler(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeScheduler:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    return use_scheduler(monkeypatch, FakeScheduler(fits=ANSWER))


@pytest.fixture
def preset(tmp_path: Path) -> Preset:
    return make_preset("first", make_model_file(tmp_path / "a.gguf"), ctx_size=4096)


def url_of(preset: Preset) -> str:
    return reverse("admin:models_registry_preset_fit", args=[preset.pk])


NEW = "/admin/models_registry/preset/fit/"


def test_the_page_tells_where_the_preset_would_go(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    page = opened(admin_client, preset)

    assert ("fit", "first") in scheduler.asked
    assert "12 layers on CUDA0, the rest on the host" in page
    assert 'waits</span></td><td data-label="Context">8,192 tokens' in page
    assert "<div>CUDA0 3,072.0 MiB</div><div>Host 1,024.0 MiB</div>" in page
    assert 'data-label="Evicts">other</td>' in page
    assert 'data-label="Where">on CUDA0</td><td data-label="Context">32,768 tokens' in page
    assert "An estimate" not in page


@pytest.mark.parametrize(
    ("fitting", "told"),
    [
        (Fitting("host"), "on the host"),
        (Fitting("fixed", context=0), "as its options say"),
        (
            Fitting("spread", {"CUDA0": 16, "CUDA1": 15}),
            "spread: 16 layers on CUDA0, 15 layers on CUDA1",
        ),
        (Fitting(problem="it needs 80 GiB"), "Nowhere: it needs 80 GiB"),
        (Fitting(problem=EVIL), "Nowhere: &lt;img"),
    ],
)
def test_every_place_is_told_in_words(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler, fitting: Fitting, told: str
) -> None:
    scheduler.fits = FitAnswer("first", True, fitting, fitting)

    page = opened(admin_client, preset)

    assert told in page
    assert "An estimate: it has not been measured yet" in page


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (SchedulerUnavailable("nobody listens"), "The scheduler does not answer: nobody listens"),
        (SchedulerRefused("not read yet"), "<p>not read yet</p>"),
    ],
)
def test_the_page_opens_though_nobody_can_say(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler, refusal: Exception, told: str
) -> None:
    scheduler.refuses = refusal

    assert told in opened(admin_client, preset)


def test_the_form_is_asked_about_as_it_stands_and_nothing_is_saved(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    before = Preset.objects.values().get()

    part = admin_client.post(
        url_of(preset), sent(preset, ctx_size="65536", placement="now"), headers=FETCHED
    ).content.decode()

    [(_, spec)] = [asked for asked in scheduler.asked if asked[0] == "fit_edited"]
    assert (spec.preset, spec.placement) == ("first", "now")
    assert spec.memory_options["ctx-size"] == "65536"
    assert "8,192 tokens" in part
    assert "<html" not in part
    assert Preset.objects.values().get() == before


def test_without_a_script_the_answer_is_a_page_of_its_own(
    admin_client: Client, preset: Preset
) -> None:
    page = admin_client.post(url_of(preset), sent(preset)).content.decode()

    assert "<html" in page
    assert "For the form as it was sent; nothing was saved." in page
    assert "8,192 tokens" in page


def test_a_form_with_faults_tells_them_and_asks_nobody(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    part = admin_client.post(
        url_of(preset), sent(preset, parallel="0", cache_type_k=EVIL), headers=FETCHED
    ).content.decode()

    assert "Correct the form first:" in part
    assert ">Slots: parallel: takes a whole number" in part
    assert '<li data-field="cache_type_k" data-text="' in part
    assert EVIL not in part
    assert scheduler.times("fit_edited") == 0


def test_a_form_that_is_older_than_the_preset_says_so(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    form = sent(preset)
    preset.threads = 2
    preset.save()

    part = admin_client.post(url_of(preset), form, headers=FETCHED).content.decode()

    assert "While this page was open" in part
    assert scheduler.times("fit_edited") == 0


def test_a_new_preset_is_asked_about_before_it_is_saved(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    form = sent(preset, name="second", seen_version="0")

    page = admin_client.get("/admin/models_registry/preset/add/").content.decode()
    part = admin_client.post(NEW, form, headers=FETCHED).content.decode()

    assert f'formaction="{NEW}"' in page
    assert "8,192 tokens" in part
    assert scheduler.asked[-1][1].preset == "second"
    assert Preset.objects.get() == preset


def test_a_file_that_has_gone_is_told(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    Path(preset.model_file.path).unlink()

    part = admin_client.post(url_of(preset), sent(preset), headers=FETCHED).content.decode()

    assert "first cannot be started: " in part
    assert scheduler.times("fit_edited") == 0


def test_only_who_may_edit_may_ask_about_edits(preset: Preset) -> None:
    client = session_of(staff("models_registry.view_preset"))

    page = opened(client, preset)

    assert "What would fit as edited" not in page
    assert client.post(url_of(preset), sent(preset)).status_code == 403
    assert client.post(NEW, sent(preset)).status_code == 403


def test_what_would_fit_is_no_page_to_be_opened(admin_client: Client, preset: Preset) -> None:
    assert admin_client.get(url_of(preset)).status_code == 405


# What runs ----------------------------------------------------------------------------------


def test_what_runs_tells_where_it_is_and_why_and_what_was_predicted(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    running = Running(
        3, "loaded", "whole", {"CUDA0": 31}, 8192, "the fullest device that takes it",
        {"CUDA0": 2 * GIB, "Host": GIB}, {"CUDA0": 3 * GIB, "Host": GIB},
        {"CUDA0": GIB + 60_000, "Host": GIB}, {"CUDA0": GIB // 4 + 60_000},
    )  # fmt: skip
    starting = Running(4, "loading", "host", {}, 0, EVIL, {"Host": GIB})
    scheduler.answer = {"first": PresetStatus("loaded", running=(running, starting))}

    page = opened(admin_client, preset)

    assert "It is on CUDA0: the fullest device that takes it. Context: 8,192 tokens." in page
    assert "It is on the host: &lt;img" in page
    # Each as it is rounded, and the rest so that they add up
    sums = ("1,024.1", "767.8", "256.1", "2,048.0", "3,072.0")
    assert all(f">{size} MiB</td>" in page.split("CUDA0</th>")[1] for size in sums)
    assert 'data-label="Reported">not yet</td>' in page


def test_the_command_line_says_what_the_grant_adds_to_it(
    admin_client: Client, preset: Preset
) -> None:
    page = opened(admin_client, preset)

    assert "At each start the ledger adds what it grants: <code>--ctx-size</code>" in page


STEPS = FitLadders(
    contexts=[
        FitStep(4096, {"CUDA0": 2 * GIB}, now=True, empty=True),
        FitStep(8192, {"CUDA0": 4 * GIB}, now=False, empty=True),
        FitStep(16384, {"CUDA0": 9 * GIB}, now=False, empty=False),
    ],
    layers=[FitStep(0, {}, True, True), FitStep(31, {"CUDA0": 5 * GIB}, False, True)],
    rooms=[DeviceRoom("CUDA0", 10 * GIB, 3 * GIB, 8 * GIB)],
)


def test_each_context_stands_against_the_memory_of_each_device(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    scheduler.fits = replace(ANSWER, ladders=STEPS)

    part = admin_client.post(url_of(preset), sent(preset), headers=FETCHED).content.decode()

    assert (
        '<input type="range" id="corral-context" form="" min="0" max="2" step="1" value="1">'
        in part
    )
    assert 'class="outside" style="width: 20.000%"' in part
    assert 'class="others" style="width: 50.000%"' in part
    assert '<tr data-key="8192" data-at="8192" aria-current="true">' in part
    assert 'data-percent="90.000" data-over>CUDA0 9,216.0 MiB' in part
    assert "The largest context that fits now: 4,096." in part
    assert "The largest with all other models gone: 8,192." in part
    assert "With 16,384 tokens CUDA0 lacks 1,024.0 MiB." in part
    assert "fits when others make way" in part
    assert "31 layers" in part
