"""Load, unload, apply, measure, pin: asked for by POST, by those who may, and answered in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from models_registry.models import Preset
from models_registry.ports import SchedulerRefused

from .registry_rows import (
    FakeScheduler,
    away,
    make_model_file,
    make_preset,
    use_scheduler,
    use_stand_in_engine,
)

pytestmark = pytest.mark.django_db
VERBS = ["load", "unload", "apply", "measure", "pin", "unpin"]
ASKED = ["load", "unload", "apply", "measure"]
LIST = "/admin/models_registry/preset/"


@pytest.fixture(autouse=True)
def scheduler(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeScheduler:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    return use_scheduler(monkeypatch, FakeScheduler())


@pytest.fixture
def preset(tmp_path: Path) -> Preset:
    return make_preset("first", make_model_file(tmp_path / "a.gguf"))


def url_of(verb: str, preset: Preset) -> str:
    return reverse(f"admin:models_registry_preset_{verb}", args=[preset.pk])


def messages_of(response: Any) -> list[str]:
    return [str(message) for message in response.context["messages"]]


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("load", "first is being loaded."),
        ("unload", "first is being unloaded."),
        ("apply", "first drains now"),
        ("measure", "first is measured anew."),
    ],
)
def test_the_buttons_and_the_actions_ask_the_scheduler(
    admin_client: Client, scheduler: FakeScheduler, preset: Preset, verb: str, words: str
) -> None:
    by_button = admin_client.post(url_of(verb, preset), follow=True)
    by_action = admin_client.post(
        LIST, {"action": verb, "_selected_action": [preset.pk]}, follow=True
    )

    assert scheduler.times(verb) == 2
    for response in (by_button, by_action):
        assert any(words in message for message in messages_of(response))
        assert words in response.content.decode()  # names are case sensitive: shown as they are


@pytest.mark.parametrize("verb", ASKED)
def test_the_schedulers_refusal_is_the_message(
    admin_client: Client, scheduler: FakeScheduler, preset: Preset, verb: str
) -> None:
    scheduler.refuses = SchedulerRefused("<b>only</b> pinned models stand in the way")

    response = admin_client.post(url_of(verb, preset), follow=True)

    assert "first: <b>only</b> pinned models stand in the way" in messages_of(response)
    assert "<b>only</b>" not in response.content.decode()


@pytest.mark.parametrize("verb", ASKED)
def test_a_scheduler_that_is_away_is_told(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, preset: Preset, verb: str
) -> None:
    use_scheduler(monkeypatch, away())

    response = admin_client.post(url_of(verb, preset), follow=True)

    assert response.status_code == 200
    assert any("the scheduler does not answer" in message for message in messages_of(response))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", ["button", "action"])
def test_pinning_is_an_edit_of_the_row(
    admin_client: Client,
    admin_user: User,
    scheduler: FakeScheduler,
    preset: Preset,
    way: str,
) -> None:
    scheduler.asked.clear()
    urls = {"button": url_of("pin", preset), "action": LIST}

    response = admin_client.post(
        urls[way], {"action": "pin", "_selected_action": [preset.pk]}, follow=True
    )

    preset.refresh_from_db()
    assert (preset.pinned, preset.version) == (True, 2)
    assert scheduler.times("reload") == 1
    assert any("first is pinned" in message for message in messages_of(response))
    record = Preset.history.latest()
    assert (record.history_user, record.history_change_reason) == (admin_user, "pinned")
    again = admin_client.post(url_of("pin", preset), follow=True)
    assert "first was pinned already." in messages_of(again)
    admin_client.post(url_of("unpin", preset))
    preset.refresh_from_db()
    assert not preset.pinned


def test_pinning_counts_later_when_the_scheduler_is_away(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, preset: Preset
) -> None:
    use_scheduler(monkeypatch, away())

    response = admin_client.post(url_of("pin", preset), follow=True)

    preset.refresh_from_db()
    assert preset.pinned
    assert any("when it is back" in message for message in messages_of(response))


@pytest.mark.parametrize("verb", VERBS)
def test_only_who_may_change_presets_may_ask(
    client: Client, scheduler: FakeScheduler, preset: Preset, verb: str
) -> None:
    assert client.post(url_of(verb, preset)).status_code == 302  # to the login page
    user = User.objects.create_user("looker", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_preset"))
    client.force_login(user)

    assert client.post(url_of(verb, preset)).status_code == 403
    client.post(LIST, {"action": verb, "_selected_action": [preset.pk]})

    preset.refresh_from_db()
    assert not preset.pinned
    assert scheduler.times(verb) == 0
    page = client.get(reverse("admin:models_registry_preset_change", args=[preset.pk]))
    assert url_of(verb, preset) not in page.content.decode()


@pytest.mark.parametrize("verb", VERBS)
def test_neither_a_link_nor_another_site_can_ask(
    admin_user: User, scheduler: FakeScheduler, preset: Preset, verb: str
) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)

    assert client.get(url_of(verb, preset)).status_code == 405
    assert client.post(url_of(verb, preset)).status_code == 403
    assert scheduler.times(verb) == 0


@pytest.mark.parametrize("verb", VERBS)
def test_a_preset_that_is_gone_is_not_found(
    admin_client: Client, preset: Preset, verb: str
) -> None:
    url = url_of(verb, preset)
    preset.delete()

    assert admin_client.post(url).status_code == 404


def test_a_preset_that_is_not_loaded_is_not_said_to_be_unloaded(
    admin_client: Client, scheduler: FakeScheduler, preset: Preset
) -> None:
    scheduler.loaded = False

    page = admin_client.post(f"{LIST}{preset.pk}/unload/", follow=True)

    assert "first is not loaded." in page.content.decode()
    assert "is being unloaded" not in page.content.decode()
