"""The registry's pages, with a scheduler that answers, refuses, or is away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from models_registry.models import Alias, ModelFile, Preset
from models_registry.ports import PresetStatus, SchedulerRefused

from .registry_rows import (
    FakeScheduler,
    away,
    gguf,
    make_model_file,
    make_preset,
    use_scheduler,
    use_stand_in_engine,
)

pytestmark = pytest.mark.django_db
LIST = "/admin/models_registry/preset/"
EVIL = '<img src=x onerror="alert(1)">'


@pytest.fixture(autouse=True)
def _engine(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_stand_in_engine(settings, monkeypatch, tmp_path)


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> FakeScheduler:
    return use_scheduler(monkeypatch, FakeScheduler())


@pytest.fixture
def preset(tmp_path: Path) -> Preset:
    return make_preset("first", make_model_file(tmp_path / "a.gguf"), ctx_size=4096)


def page_of(preset: Preset) -> str:
    return reverse("admin:models_registry_preset_change", args=[preset.pk])


def messages_of(response: Any) -> list[str]:
    return [str(message) for message in response.context["messages"]]


def test_the_list_shows_states_with_one_question(
    admin_client: Client, scheduler: FakeScheduler, preset: Preset
) -> None:
    make_preset("second", preset.model_file)
    make_preset("third", preset.model_file)
    scheduler.answer = {
        "first": PresetStatus("loaded", leases=2, waiters=1, holdup="all its slots are answering"),
        "second": PresetStatus("unloaded", failure="exit 1: no such tensor"),
    }
    scheduler.asked.clear()

    page = admin_client.get(LIST).content.decode()

    assert "loaded, 2 answering, 1 waiting: all its slots are answering" in page
    assert "last load failed" in page
    assert scheduler.asked == [("statuses",)]


def test_pages_open_and_say_so_when_the_scheduler_is_away(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, preset: Preset
) -> None:
    use_scheduler(monkeypatch, away())

    listed = admin_client.get(LIST)
    opened = admin_client.get(page_of(preset))

    assert any("does not answer" in message for message in messages_of(listed))
    assert "unknown" in listed.content.decode()
    assert "The scheduler does not answer" in opened.content.decode()
    assert "<control.sock>" not in listed.content.decode() + opened.content.decode()


def test_a_presets_page_shows_the_last_words_of_its_failure(
    admin_client: Client, scheduler: FakeScheduler, preset: Preset
) -> None:
    scheduler.answer = {"first": PresetStatus("unloaded", failure=f"exit 1: {EVIL}")}

    page = admin_client.get(page_of(preset)).content.decode()

    assert "exit 1: &lt;img src=x" in page
    assert EVIL not in page


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        ("failed_to_load: no such tensor", "it ended before it was ready: no such tensor"),
        ("failed_to_load: ", "it ended before it was ready"),
        ("out_of_memory: failed to allocate", "there was not enough memory: failed to allocate"),
    ],
)
def test_a_failures_code_is_put_into_words(
    admin_client: Client, scheduler: FakeScheduler, preset: Preset, failure: str, told: str
) -> None:
    scheduler.answer = {"first": PresetStatus("unloaded", failure=failure)}

    page = admin_client.get(page_of(preset)).content.decode()

    assert f">{told}</p>" in page


def test_a_failures_exit_code_is_told(
    admin_client: Client, scheduler: FakeScheduler, preset: Preset
) -> None:
    scheduler.answer = {
        "first": PresetStatus("unloaded", failure="failed_to_load: bad magic", exit="exit code 1")
    }

    page = admin_client.get(page_of(preset)).content.decode()

    assert ">it ended before it was ready (exit code 1): bad magic</p>" in page


def test_a_presets_page_shows_each_option_with_its_origin_and_the_command_line(
    admin_client: Client, scheduler: FakeScheduler, preset: Preset, settings: Any
) -> None:
    settings.CORRAL_COMMAND_LINE = {"threads": "3"}

    page = admin_client.get(page_of(preset)).content.decode()

    assert '<th scope="row">ctx-size</th><td>4096</td><td>preset</td>' in page
    assert '<th scope="row">threads</th><td>3</td><td>serve&#x27;s command line <span' in page
    assert "--ctx-size 4096" in page
    assert "--threads 3" in page


def test_a_presets_page_opens_when_its_options_are_bad(
    admin_client: Client, scheduler: FakeScheduler, preset: Preset
) -> None:
    Preset.objects.update(extra_options="host = 1")

    page = admin_client.get(page_of(preset)).content.decode()

    assert "first cannot be started" in page


def test_names_that_html_could_break_are_escaped(
    admin_client: Client, scheduler: FakeScheduler, preset: Preset, tmp_path: Path
) -> None:
    ModelFile.objects.update(path=str(gguf(tmp_path / f"{EVIL}.gguf")))
    Preset.objects.update(name=EVIL, extra_options=f"chat-template = {EVIL}")
    Alias.objects.create(name=EVIL + "2", preset=preset)
    scheduler.answer = {EVIL: PresetStatus(EVIL)}

    for url in (
        LIST,
        page_of(preset),
        reverse("admin:models_registry_modelfile_changelist"),
        reverse("admin:models_registry_modelfile_change", args=[preset.model_file.pk]),
        reverse("admin:models_registry_alias_changelist"),
    ):
        page = admin_client.get(url).content.decode()
        assert "&lt;img" in page
        assert "<img src=x" not in page


@pytest.mark.parametrize(
    ("action", "question", "words"),
    [
        ("load", ("load", "first"), "first is being loaded"),
        ("unload", ("unload", "first", False), "first is being unloaded"),
    ],
)
def test_the_lists_actions_ask_the_scheduler(
    admin_client: Client,
    scheduler: FakeScheduler,
    preset: Preset,
    action: str,
    question: tuple[Any, ...],
    words: str,
) -> None:
    data = {"action": action, "_selected_action": [preset.pk]}

    response = admin_client.post(LIST, data, follow=True)

    assert question in scheduler.asked
    assert scheduler.times("statuses") == 1
    assert any(words in message for message in messages_of(response))


@pytest.mark.parametrize("action", ["load", "unload"])
def test_the_pages_buttons_ask_the_scheduler(
    admin_client: Client, scheduler: FakeScheduler, preset: Preset, action: str
) -> None:
    url = reverse(f"admin:models_registry_preset_{action}", args=[preset.pk])
    assert f'action="{url}"' in admin_client.get(page_of(preset)).content.decode()

    response = admin_client.post(url, follow=True)

    assert scheduler.times(action) == 1
    assert any("first is being" in message for message in messages_of(response))
    assert admin_client.get(url).status_code == 405


def test_a_refusal_is_shown_in_its_own_words(
    admin_client: Client, scheduler: FakeScheduler, preset: Preset
) -> None:
    scheduler.refuses = SchedulerRefused("only pinned models stand in the way")
    url = reverse("admin:models_registry_preset_load", args=[preset.pk])

    response = admin_client.post(url, follow=True)

    assert "first: only pinned models stand in the way" in messages_of(response)


def test_who_may_only_look_cannot_load(
    client: Client, scheduler: FakeScheduler, preset: Preset
) -> None:
    user = User.objects.create_user("looker", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_preset"))
    client.force_login(user)

    page = client.get(page_of(preset)).content.decode()
    response = client.post(reverse("admin:models_registry_preset_load", args=[preset.pk]))

    assert "/load/" not in page
    assert response.status_code == 403
    assert scheduler.times("load") == 0


def test_the_models_folder_is_rescanned_by_a_button(
    admin_client: Client, scheduler: FakeScheduler, tmp_path: Path, settings: Any
) -> None:
    gguf(tmp_path / "models" / "new.gguf")
    settings.CORRAL_MODELS_DIR = str(tmp_path / "models")
    url = reverse("admin:models_registry_modelfile_rescan")
    listing = reverse("admin:models_registry_modelfile_changelist")
    assert f'action="{url}"' in admin_client.get(listing).content.decode()

    response = admin_client.post(url, follow=True)

    assert Preset.objects.get().name == "new"
    assert messages_of(response)[0] == "1 model in the models folder: 1 new"
    assert admin_client.get(url).status_code == 405


def test_a_rescan_without_a_folder_says_what_to_set(
    admin_client: Client, scheduler: FakeScheduler, settings: Any
) -> None:
    settings.CORRAL_MODELS_DIR = ""

    response = admin_client.post(reverse("admin:models_registry_modelfile_rescan"), follow=True)

    assert "CORRAL_MODELS_DIR" in messages_of(response)[0]


def test_the_lists_of_files_and_aliases_cost_the_same_for_one_and_for_many(
    admin_client: Client,
    scheduler: FakeScheduler,
    tmp_path: Path,
    django_assert_max_num_queries: Any,
) -> None:
    for number in range(20):
        preset = make_preset(f"p{number}", make_model_file(tmp_path / f"{number}.gguf"))
        Alias.objects.create(name=f"q{number}", preset=preset)

    with django_assert_max_num_queries(9):
        admin_client.get(reverse("admin:models_registry_modelfile_changelist"))
    with django_assert_max_num_queries(6):
        admin_client.get(reverse("admin:models_registry_alias_changelist"))


def test_every_add_page_opens(admin_client: Client, scheduler: FakeScheduler) -> None:
    for model in ("preset", "modelfile", "alias"):
        url = reverse(f"admin:models_registry_{model}_add")
        assert admin_client.get(url).status_code == 200
