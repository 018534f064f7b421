"""Groups, profiles and the global preset in the admin; clones, and changes of many presets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from models_registry.cloning import clone
from models_registry.models import Alias, GlobalPreset, Group, Preset, Profile
from models_registry.restricted import masked

from .registry_rows import FakeScheduler, make_model_file, make_preset, use_scheduler

pytestmark = pytest.mark.django_db
LIST = "/admin/models_registry/preset/"


@pytest.fixture(autouse=True)
def scheduler(monkeypatch: pytest.MonkeyPatch, engine_stand_in: None) -> FakeScheduler:
    return use_scheduler(monkeypatch, FakeScheduler())


@pytest.fixture
def preset(scheduler: FakeScheduler, tmp_path: Path) -> Preset:
    return make_preset("first", make_model_file(tmp_path / "a.gguf"), ctx_size=4096)


def page(model: str, pk: int, what: str = "change") -> str:
    return reverse(f"admin:models_registry_{model}_{what}", args=[pk])


def messages_of(response: Any) -> list[str]:
    return [str(message) for message in response.context["messages"]]


def limited(*codenames: str) -> Client:
    user = User.objects.create_user("limited", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


# Clones -----------------------------------------------------------------------------------


def test_the_clone_button_opens_the_copys_form(admin_client: Client, preset: Preset) -> None:
    Alias.objects.create(name="short", preset=preset)

    opened = admin_client.post(page("preset", preset.pk, "clone"), follow=True)

    copy = Preset.objects.get(name="copy of first")
    assert opened.redirect_chain[-1][0] == page("preset", copy.pk)
    assert copy.ctx_size == 4096
    assert not copy.aliases.exists()
    assert copy.history.get().history_change_reason == "a clone of first"


def test_a_clone_says_itself_what_a_file_says_of_its_original(preset: Preset) -> None:
    preset.file_options = {
        "ctx-size": "512", "batch-size": "64", "top-k": "3", "temp": "0.5",
        "pinned": "true", "max-wait": "7", "tags": "a,b", "dedup-cache-models": "true",
    }  # fmt: skip
    preset.extra_options, preset.max_wait = "--top_k 9", 2.0
    preset.save()

    copy = clone(preset, reason="test")

    assert (copy.ctx_size, copy.batch_size, copy.max_wait) == (4096, 64, 2.0)
    assert (copy.pinned, copy.tags, copy.file_options) == (True, "a, b", {})
    assert copy.extra_options.splitlines() == [
        "--top_k 9", "temp = 0.5", "dedup-cache-models = true",
    ]  # fmt: skip


def test_several_are_cloned_by_the_list(admin_client: Client, preset: Preset) -> None:
    second = make_preset("second", preset.model_file)
    data = {"action": "clone", "_selected_action": [preset.pk, second.pk]}

    told = messages_of(admin_client.post(LIST, data, follow=True))

    assert told == ["copy of first was made.", "copy of second was made."]
    refused = limited("view_preset", "change_preset").post(page("preset", preset.pk, "clone"))
    assert refused.status_code == 403


# Many at once -------------------------------------------------------------------------------


def test_tags_group_and_profiles_of_several_are_changed_at_once(
    admin_client: Client, preset: Preset
) -> None:
    second = make_preset("second", preset.model_file, tags="old, kept")
    group, profile = Group.objects.create(name="large"), Profile.objects.create(name="days")
    chosen = {"action": "organise", "_selected_action": [preset.pk, second.pk]}

    asked = admin_client.post(LIST, chosen).content.decode()
    done = admin_client.post(
        LIST,
        {
            **chosen,
            "organise": "1",
            "add_tags": "new, kept",
            "remove_tags": "old",
            "group": group.pk,
            "add_to": [profile.pk],
        },
        follow=True,
    )

    assert "2 presets: first, second." in asked
    assert messages_of(done) == ["2 presets were changed."]
    tags = dict(Preset.objects.values_list("name", "tags"))
    assert tags == {"first": "new, kept", "second": "kept, new"}
    assert set(group.presets.all()) == set(profile.presets.all()) == {preset, second}
    assert second.history.first().prev_record.tags == "old, kept"


def test_all_of_a_long_list_are_changed_by_one_form(
    admin_client: Client, preset: Preset, settings: Settings
) -> None:
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 100
    Preset.objects.bulk_create(
        Preset(name=f"p{number}", model_file=preset.model_file) for number in range(150)
    )
    across = {"action": "organise", "_selected_action": [preset.pk], "select_across": "1"}

    asked = admin_client.post(LIST, across)
    admin_client.post(LIST, {**across, "organise": "1", "add_tags": "all"})

    assert len(asked.context["keys"]) == 1
    assert Preset.objects.filter(tags="all").count() == 151


def test_too_many_tags_change_nothing(admin_client: Client, preset: Preset) -> None:
    second = make_preset("second", preset.model_file, tags="x" * 495)
    chosen = {"action": "organise", "_selected_action": [preset.pk, second.pk], "organise": "1"}

    refused = admin_client.post(LIST, {**chosen, "add_tags": "another"}).content.decode()
    empty = admin_client.post(LIST, chosen).content.decode()

    assert "second would have more than 500 characters of tags" in refused
    assert "Nothing is to change" in empty
    preset.refresh_from_db()
    assert preset.tags == ""


# Groups and profiles ------------------------------------------------------------------------


def test_a_groups_page_moves_presets(admin_client: Client, preset: Preset) -> None:
    second = make_preset("second", preset.model_file, group=Group.objects.create(name="other"))
    data = {"name": "large", "one_at_a_time": "on", "members": [preset.pk, second.pk]}

    admin_client.post(reverse("admin:models_registry_group_add"), data)
    group = Group.objects.get(name="large")
    opened = admin_client.get(page("group", group.pk))
    admin_client.post(page("group", group.pk), {**data, "members": [second.pk]})

    assert set(opened.context["adminform"].form.initial["members"]) == {preset, second}
    assert list(group.presets.all()) == [second]
    assert preset.history.first().history_change_reason == "by the page of the group large"


def test_who_may_not_change_presets_sees_a_groups_members_only(preset: Preset) -> None:
    group = Group.objects.create(name="large")
    client = limited("view_group", "change_group")

    client.post(page("group", group.pk), {"name": "large", "members": [preset.pk]})

    assert not group.presets.exists()
    assert Group.objects.get().name == "large"


def test_a_profile_says_before_and_after_what_it_switches(
    admin_client: Client, preset: Preset
) -> None:
    make_preset("second", preset.model_file)
    profile = Profile.objects.create(name="days")
    profile.presets.set(Preset.objects.all())
    Profile.objects.create(name="always").presets.set(Preset.objects.filter(name="second"))

    before = admin_client.get(page("profile", profile.pk)).content.decode()
    off = admin_client.post(page("profile", profile.pk, "switch"), {"active": "0"}, follow=True)
    again = admin_client.post(
        "/admin/models_registry/profile/",
        {"action": "deactivate", "_selected_action": [profile.pk]},
        follow=True,
    )

    assert "it takes away: first." in before
    assert messages_of(off)[0].startswith("days is off; no longer offered: first. What runs")
    assert messages_of(again) == ["days was off already."]
    assert not Profile.objects.get(name="days").active
    refused = limited("view_profile").post(page("profile", profile.pk, "switch"), {"active": "1"})
    assert refused.status_code == 403


def test_a_profile_goes_back_with_its_presets(admin_client: Client, preset: Preset) -> None:
    second = make_preset("second", preset.model_file)
    profile = Profile.objects.create(name="days")
    profile.presets.set([preset, second])
    then = profile.history.first()
    admin_client.post(
        page("profile", profile.pk), {"name": "days", "active": "on", "presets": [second.pk]}
    )

    shown = admin_client.get(page("profile", profile.pk, "history")).content.decode()
    admin_client.post(reverse("admin:models_registry_profile_version", args=[profile.pk, then.pk]))
    assert "presets: <del>first, second</del> → second" in shown
    assert set(profile.presets.all()) == {preset, second}

    profile.delete()
    gone = Profile.history.filter(history_type="-").latest()
    admin_client.post(
        reverse("admin:models_registry_profile_version", args=[gone.id, gone.history_id])
    )
    assert set(Profile.objects.get(name="days").presets.all()) == {preset, second}


# The global preset --------------------------------------------------------------------------


def test_the_global_preset_is_one_page(admin_client: Client, preset: Preset) -> None:
    opened = admin_client.get("/admin/models_registry/globalpreset/", follow=True)
    row = GlobalPreset.objects.get()
    bad = admin_client.post(page("globalpreset", row.pk), {"options": "nonsense = 1"})
    admin_client.post(page("globalpreset", row.pk), {"options": "threads = 3\nmax-wait = 5"})

    form = admin_client.get(page("preset", preset.pk)).content.decode()
    assert opened.redirect_chain[-1][0] == page("globalpreset", row.pk)
    assert "llama-server has no such option" in bad.content.decode()
    assert "unset: 3 (global preset [*])" in form
    assert "unset: 5 (global preset [*])" in form
    assert admin_client.get("/admin/models_registry/globalpreset/add/").status_code == 403
    assert GlobalPreset.objects.count() == 1


def test_the_global_preset_is_for_superusers(preset: Preset) -> None:
    row = GlobalPreset.objects.create()
    client = limited("view_globalpreset", "change_globalpreset")

    client.post(page("globalpreset", row.pk), {"options": "threads = 3"})

    assert client.get(page("globalpreset", row.pk)).status_code == 200
    row.refresh_from_db()
    assert row.options == ""


# The environment ----------------------------------------------------------------------------


def test_secrets_are_shown_to_superusers_alone(admin_client: Client, preset: Preset) -> None:
    secret = "GGML_TOKEN_SALT=hush"
    preset.environment = f"{secret}\nOMP_PROC_BIND=close"
    preset.save()
    client = limited("view_preset", "change_preset")
    data = {
        "name": "first", "model_file": preset.model_file.pk, "priority": "normal",
        "engine": "llama_server",
        "placement": "best", "replicas": "1", "seen_version": preset.version, "tags": "new",
        "aliases-TOTAL_FORMS": "0", "aliases-INITIAL_FORMS": "0", "environment": "OMP_X=1",
    }  # fmt: skip

    assert secret in admin_client.get(page("preset", preset.pk)).content.decode()
    seen = client.get(page("preset", preset.pk)).content.decode()
    history = admin_client.get(page("preset", preset.pk, "history")).content.decode()
    client.post(page("preset", preset.pk), data)

    assert "hush" not in seen + history
    assert "GGML_TOKEN_SALT=••••" in seen
    preset.refresh_from_db()
    assert (preset.tags, preset.environment) == ("new", f"{secret}\nOMP_PROC_BIND=close")


@pytest.mark.parametrize("name", ["API_KEY", "hf_token", "MY_SECRET", "PASSWORD", "AUTH_HEADER"])
def test_what_is_called_like_a_secret_is_masked(name: str) -> None:
    assert masked(f"{name}=a=b\nOTHER=1\nnonsense") == f"{name}=••••\nOTHER=1\nnonsense"


def test_a_group_that_is_deleted_leaves_a_version_in_its_presets_histories(
    admin_client: Client, preset: Preset
) -> None:
    preset.group = Group.objects.create(name="big")
    preset.save()

    done = admin_client.post(page("group", preset.group.pk, "delete"), {"post": "yes"})

    assert done.status_code == 302
    now = Preset.objects.get()
    assert (now.group, now.version) == (None, preset.version + 1)
    record = Preset.history.first()
    assert (record.group_id, record.version) == (None, now.version)
    assert record.history_change_reason == "the group big was deleted"
    assert record.history_user.username == "admin"
