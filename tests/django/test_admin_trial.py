"""Trying a preset from its form: what the page is told, and who may."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import Client
from django.urls import reverse

from models_registry.launch import LaunchSpec
from models_registry.models import Preset
from models_registry.ports import Running, SchedulerRefused, TrialNews

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

MIB = 1 << 20
RUNNING = Running(3, "loaded", "host", predicted={"Host": 10 * MIB}, actual={"Host": 9 * MIB})
STORY = [
    TrialNews("waits", 0.5, "another load is under way (other)"),
    TrialNews("loads", 1.0, progress=0.25),
    TrialNews("loaded", 2.0, running=RUNNING, load_seconds=1.5),
    TrialNews(
        "answered", 2.5, running=RUNNING, load_seconds=1.5, made_way=("other",),
        first=0.25, tokens=16, read_speed=80.0, answer_speed=41.26,
    ),
]  # fmt: skip


@pytest.fixture(autouse=True)
def scheduler(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeScheduler:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    return use_scheduler(monkeypatch, FakeScheduler(trial=STORY))


@pytest.fixture
def preset(tmp_path: Path) -> Preset:
    return make_preset("first", make_model_file(tmp_path / "a.gguf"), ctx_size=4096)


def url_of(preset: Preset) -> str:
    return reverse("admin:models_registry_preset_trial", args=[preset.pk])


def lines_of(answer: Any) -> list[dict[str, Any]]:
    async def read() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    assert answer.headers["Content-Type"] == "application/x-ndjson"
    return [json.loads(line) for line in async_to_sync(read)().splitlines()]


def test_it_is_told_as_it_happens_and_nothing_is_saved(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    before = Preset.objects.values().get()

    waits, loads, loaded, answered = lines_of(
        admin_client.post(url_of(preset), sent(preset, ctx_size="65536"))
    )

    assert (waits["stage"], waits["words"]) == ("waits", "another load is under way (other)")
    assert loads["progress"] == 0.25
    assert ["Memory on Host", "predicted 10.0 MiB, measured 9.0 MiB"] in loaded["figures"]
    assert answered["text"].startswith("It works")
    assert ["Load", "1.5 s"] in answered["figures"]
    assert ["First token after", "0.2 s"] in answered["figures"]
    assert ["Answer, of 16 tokens", "41.3 tokens/s"] in answered["figures"]
    assert ["Made way for it", "other; loaded again now, if there is still room"] in answered[
        "figures"
    ]
    [(_, spec)] = [asked for asked in scheduler.asked if asked[0] == "tried"]
    assert isinstance(spec, LaunchSpec)
    assert spec.memory_options["ctx-size"] == "65536"
    assert Preset.objects.values().get() == before


def test_a_failure_comes_with_the_last_words(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    scheduler.trial = [TrialNews("failed", 4.0, "exit code 1: no such tensor")]

    [failed] = lines_of(admin_client.post(url_of(preset), sent(preset)))

    assert (failed["stage"], failed["words"]) == ("failed", "exit code 1: no such tensor")
    assert failed["text"] == "It failed after 4.0 s. Nothing was saved."


def test_a_form_with_faults_is_not_tried(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    [told] = lines_of(admin_client.post(url_of(preset), sent(preset, parallel="0")))

    assert told["stage"] == "failed"
    assert "Correct the form first: Slots: " in told["text"]
    assert scheduler.times("tried") == 0


def test_what_the_scheduler_refuses_is_told(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    scheduler.refuses = SchedulerRefused("it is being tried already")

    [told] = lines_of(admin_client.post(url_of(preset), sent(preset)))

    assert told == {"stage": "failed", "text": "it is being tried already"}


def test_a_generator_that_is_not_read_to_its_end_is_closed(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    answer = admin_client.post(url_of(preset), sent(preset))

    async def read_one() -> None:
        pieces = answer.streaming_content
        await anext(pieces)
        await pieces.aclose()

    async_to_sync(read_one)()

    assert scheduler.times("trial closed") == 1


def test_only_who_may_load_may_try(preset: Preset, scheduler: FakeScheduler) -> None:
    client = session_of(staff("models_registry.view_preset"))

    assert "Try it" not in opened(client, preset)
    assert client.post(url_of(preset), sent(preset)).status_code == 403
    assert client.post("/admin/models_registry/preset/trial/", {}).status_code == 403
    assert client.get(url_of(preset)).status_code == 405
    assert scheduler.times("tried") == 0
