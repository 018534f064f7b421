"""The list of presets: what its columns say, how it is filtered and searched, and what it costs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from models_registry import revision, tags
from models_registry.admin.preset_list import PresetListAdmin
from models_registry.models import (
    Alias,
    FileMetadata,
    Group,
    ModelFile,
    Preset,
    Profile,
)
from models_registry.ports import PresetStatus, Running

from .registry_rows import FakeScheduler, make_model_file, make_preset, use_scheduler

pytestmark = pytest.mark.django_db
LIST = "/admin/models_registry/preset/"


@pytest.fixture(autouse=True)
def scheduler(monkeypatch: pytest.MonkeyPatch, engine_stand_in: None) -> FakeScheduler:
    return use_scheduler(monkeypatch, FakeScheduler())


def many(count: int) -> None:
    """Presets with everything that a list shows, each on a file of its own."""
    files = ModelFile.objects.bulk_create(
        ModelFile(path=f"/models/{number}.gguf", size=number << 20) for number in range(count)
    )
    FileMetadata.objects.bulk_create(
        FileMetadata(
            model_file=file,
            stamp="s",
            name=f"Title {number}",
            architecture=("llama", "qwen3")[number % 2],
            quantisation=("Q4_K_M", "Q8_0")[number % 2],
        )
        for number, file in enumerate(files)
    )
    group = Group.objects.create(name="shared")
    presets = Preset.objects.bulk_create(
        Preset(name=f"p{number}", model_file=file, group=group, tags=f"all, t{number % 3}")
        for number, file in enumerate(files)
    )
    Alias.objects.bulk_create(Alias(name=f"also-{each.name}", preset=each) for each in presets)
    Profile.objects.create(name="work").presets.set(presets)
    revision.bump()


def shown(client: Client, query: str = "") -> list[str]:
    """The names that the list shows."""
    found = client.get(f"{LIST}{query}")
    assert found.status_code == 200
    return [preset.name for preset in found.context["cl"].result_list]


def queries(client: Client) -> int:
    with CaptureQueriesContext(connection) as asked:
        shown(client)
    return len(asked)


def test_the_list_costs_the_same_queries_for_ten_presets_and_for_two_hundred(
    admin_client: Client, scheduler: FakeScheduler
) -> None:
    many(10)
    few = queries(admin_client)
    for model in (Preset, ModelFile, Profile, Group):
        model.objects.all().delete()
    many(200)
    scheduler.asked.clear()

    assert queries(admin_client) == few
    assert scheduler.asked == [("statuses",)]


def test_a_row_says_what_its_model_takes_and_when_it_was_last_used(
    admin_client: Client, scheduler: FakeScheduler, tmp_path: Path
) -> None:
    file = make_model_file(tmp_path / "a.gguf")
    ModelFile.objects.filter(pk=file.pk).update(size=3 << 20)
    group = Group.objects.create(name="big ones")
    preset = make_preset("first", file, group=group, tags="chat, code")
    make_preset("second", file)
    Profile.objects.create(name="nights", active=False).presets.add(preset)
    scheduler.answer = {
        "first": PresetStatus("unloaded", need={"CUDA0": 5 << 20}),
        "second": PresetStatus("loaded", running=(Running(1, "loaded"),)),
    }
    scheduler.used = {"first": timezone.now() - timedelta(hours=3, minutes=5)}

    page = admin_client.get(LIST).content.decode()

    for words in (
        "3.0 MiB", "CUDA0 5.0 MiB", "3\xa0hours ago", "now", "big ones", "nights (off)",
        "chat, code", "added by hand",
    ):  # fmt: skip
        assert words in page, words


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("?tag=t1", {"p1", "p4"}),
        ("?pinned__exact=1", {"p5"}),
        ("?source__exact=admin", {f"p{number}" for number in range(6)}),
        ("?model_file__metadata__architecture=qwen3", {"p1", "p3", "p5"}),
        ("?model_file__metadata__quantisation=Q4_K_M", {"p0", "p2", "p4"}),
        ("?model_file__missing_since__isempty=0", {"p2"}),
        ("?q=also-p3", {"p3"}),
        ("?q=Title+4", {"p4"}),
        ("?q=models/5.gguf", {"p5"}),
        ("?q=t2", {"p2", "p5"}),
        ("?tag=t1&q=also-p4", {"p4"}),
        ("?tag=nothing", set()),
    ],
)
def test_presets_are_found(admin_client: Client, query: str, names: set[str]) -> None:
    many(6)
    Preset.objects.filter(name="p5").update(pinned=True)
    ModelFile.objects.filter(path="/models/2.gguf").update(missing_since=timezone.now())

    assert set(shown(admin_client, query)) == names


def test_presets_are_found_by_group_and_profile(admin_client: Client) -> None:
    many(2)
    other = make_other("alone")
    group, profile = Group.objects.get(), Profile.objects.get()

    assert set(shown(admin_client, f"?group__id__exact={group.pk}")) == {"p0", "p1"}
    assert set(shown(admin_client, f"?profiles__id__exact={profile.pk}")) == {"p0", "p1"}
    assert shown(admin_client, "?profiles__isnull=True") == [other.name]


def make_other(name: str, **fields: Any) -> Preset:
    return make_preset(name, ModelFile.objects.all()[0], **fields)


def test_a_tag_of_the_presets_file_counts_where_the_preset_has_none(admin_client: Client) -> None:
    many(1)
    make_other("filed", file_options={"tags": "fast,all"})
    make_other("mine", tags="mine", file_options={"tags": "fast"})

    assert tags.all_tags() == ["all", "fast", "mine", "t0"]
    assert shown(admin_client, "?tag=fast") == ["filed"]
    assert set(shown(admin_client, "?tag=all")) == {"p0", "filed"}


@pytest.mark.parametrize("column", ["need", "last_use"])
def test_it_is_sorted_by_what_the_scheduler_says_over_all_pages(
    admin_client: Client, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    many(5)
    monkeypatch.setattr(PresetListAdmin, "list_per_page", 2)
    now = timezone.now()
    for name, value in (("p3", 1), ("p0", 2), ("p4", 3)):
        scheduler.answer[name] = PresetStatus("unloaded", need={"Host": value << 20})
        scheduler.used[name] = now - timedelta(hours=9 - value)
    first = admin_client.get(LIST).context["cl"]
    number = first.list_display.index(column)

    def over_pages(order: str) -> list[str]:
        return [name for page in (1, 2, 3) for name in shown(admin_client, f"?o={order}&p={page}")]

    assert over_pages(f"{number}") == ["p3", "p0", "p4", "p1", "p2"]
    assert over_pages(f"-{number}") == ["p4", "p0", "p3", "p1", "p2"]
    assert shown(admin_client, f"?o=-{number}&q=p0") == ["p0"]
