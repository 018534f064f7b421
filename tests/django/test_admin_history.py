"""Who changed what, and going back: to an older version, and from deletion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from models_registry.models import Alias, ModelFile, Preset
from models_registry.revision import registry_revision

from .registry_rows import (
    FakeScheduler,
    make_model_file,
    make_preset,
    use_scheduler,
    use_stand_in_engine,
)

pytestmark = pytest.mark.django_db
EVIL = '<img src=x onerror="alert(1)">'


@pytest.fixture(autouse=True)
def scheduler(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeScheduler:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    return use_scheduler(monkeypatch, FakeScheduler())


@pytest.fixture
def preset(tmp_path: Path) -> Preset:
    return make_preset("first", make_model_file(tmp_path / "a.gguf"), ctx_size=4096)


def history_of(row: Any) -> str:
    return reverse(f"admin:models_registry_{row._meta.model_name}_history", args=[row.pk])


def version_url(record: Any, model: str = "preset") -> str:
    return reverse(f"admin:models_registry_{model}_version", args=[record.id, record.history_id])


def messages_of(response: Any) -> list[str]:
    return [str(message) for message in response.context["messages"]]


def change(client: Client, preset: Preset, **fields: Any) -> Any:
    """As the form sends it: everything that is on the page."""
    page = client.get(reverse("admin:models_registry_preset_change", args=[preset.pk]))
    form = page.context["adminform"].form
    values = {name: form[name].value() for name in form.fields}
    sent = {name: value for name, value in values.items() if value not in (None, False)} | fields
    sent |= {"aliases-TOTAL_FORMS": "0", "aliases-INITIAL_FORMS": "0"}
    return client.post(page.request["PATH_INFO"], sent, follow=True)


def test_the_history_names_who_changed_what(admin_client: Client, preset: Preset) -> None:
    change(admin_client, preset, ctx_size=8192)

    page = admin_client.get(history_of(preset)).content.decode()

    assert "context: <del>4096</del> → 8192" in page
    assert '<td data-label="Who">admin</td>' in page
    assert page.count("<tr>") == 1 + 2  # head, the change, the making


def test_a_save_that_changes_nothing_makes_no_version(admin_client: Client, preset: Preset) -> None:
    change(admin_client, preset)

    preset.refresh_from_db()
    assert preset.version == 1
    assert Preset.history.count() == 1


@pytest.mark.django_db(transaction=True)
def test_going_back_is_checked_saved_and_told_like_an_edit(
    admin_client: Client,
    preset: Preset,
    scheduler: FakeScheduler,
) -> None:
    change(admin_client, preset, ctx_size=8192)
    first = Preset.history.earliest()
    before = registry_revision()
    scheduler.asked.clear()

    response = admin_client.post(version_url(first))

    preset.refresh_from_db()
    assert (preset.ctx_size, preset.version) == (4096, 3)
    assert registry_revision() == before + 1
    assert ("reload", before + 1) in scheduler.asked
    assert response.status_code == 302
    newest = Preset.history.latest()
    assert newest.history_user.username == "admin"
    assert newest.history_change_reason.startswith("back to ")


def test_going_back_to_what_the_engine_refuses_by_now_is_refused(
    admin_client: Client, preset: Preset
) -> None:
    Preset.history.update(cache_type_k="gone_1")

    response = admin_client.post(version_url(Preset.history.get()))

    preset.refresh_from_db()
    assert preset.cache_type_k is None
    assert "cache-type-k: takes one of" in response.content.decode()


def test_going_back_over_a_rename_keeps_both_names(admin_client: Client, preset: Preset) -> None:
    first = Preset.history.get()
    change(admin_client, preset, name="second")
    assert Alias.objects.get().name == "first"

    admin_client.post(version_url(first))

    preset.refresh_from_db()
    assert preset.name == "first"
    assert [alias.name for alias in Alias.objects.all()] == ["second"]


def test_a_deleted_preset_comes_back_with_its_aliases(admin_client: Client, preset: Preset) -> None:
    pk, version = preset.pk, preset.version
    Alias.objects.create(name="other", preset=preset)
    Alias.objects.create(name="dropped", preset=preset).delete()
    preset.delete()
    deleted = admin_client.get(reverse("admin:models_registry_preset_deleted")).content.decode()
    record = Preset.history.latest()
    assert version_url(record) in deleted

    response = admin_client.post(version_url(record), follow=True)

    back = Preset.objects.get()
    assert (back.pk, back.name, back.ctx_size, back.version) == (pk, "first", 4096, version + 1)
    assert [alias.name for alias in Alias.objects.all()] == ["other"]
    assert any("first is back" in message for message in messages_of(response))
    assert (
        version_url(record)
        not in admin_client.get(reverse("admin:models_registry_preset_deleted")).content.decode()
    )


def test_an_alias_whose_name_is_taken_by_now_stays_away(
    admin_client: Client, preset: Preset
) -> None:
    Alias.objects.create(name="other", preset=preset)
    preset.delete()
    make_preset("other", ModelFile.objects.get())

    admin_client.post(version_url(Preset.history.filter(name="first").latest()))

    assert Preset.objects.count() == 2
    assert Alias.objects.count() == 0


def test_a_preset_whose_model_file_was_deleted_says_what_to_bring_back_first(
    admin_client: Client, preset: Preset
) -> None:
    preset.model_file.delete()
    record = Preset.history.latest()
    assert record.history_change_reason == "deleted with what it belonged to"

    refused = admin_client.post(version_url(record)).content.decode()
    admin_client.post(version_url(ModelFile.history.latest(), "modelfile"))
    admin_client.post(version_url(record))

    assert "bring that model file back first" in refused
    assert Preset.objects.get().model_file == ModelFile.objects.get()


def test_a_name_that_was_given_away_is_not_taken_back(admin_client: Client, preset: Preset) -> None:
    preset.delete()
    make_preset("first", ModelFile.objects.get())

    page = admin_client.post(version_url(Preset.history.filter(history_type="-").get()))

    assert "already exists" in page.content.decode()
    assert Preset.objects.count() == 1


def test_who_may_only_look_sees_the_history_and_cannot_go_back(
    client: Client, preset: Preset
) -> None:
    user = User.objects.create_user("looker", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_preset"))
    client.force_login(user)
    Preset.objects.update(ctx_size=16)
    url = version_url(Preset.history.get())

    assert client.get(history_of(preset)).status_code == 200
    assert "Revert" not in client.get(url).content.decode()
    assert client.post(url).status_code == 403


def test_who_may_not_look_sees_no_history(client: Client, preset: Preset) -> None:
    client.force_login(User.objects.create_user("nobody", is_staff=True))

    assert client.get(history_of(preset)).status_code == 403
    assert client.get(version_url(Preset.history.get())).status_code == 403
    assert client.get(reverse("admin:models_registry_preset_deleted")).status_code == 403


def test_a_version_belongs_to_its_own_row(admin_client: Client, preset: Preset) -> None:
    other = make_preset("other", preset.model_file)
    record = Preset.history.filter(id=other.pk).get()
    url = reverse("admin:models_registry_preset_version", args=[preset.pk, record.history_id])

    assert admin_client.post(url).status_code == 404


def test_names_in_the_history_are_escaped(admin_client: Client, preset: Preset) -> None:
    User.objects.update(username=EVIL)
    preset.extra_options = f"chat-template = {EVIL}"
    preset.name = EVIL
    preset._change_reason = EVIL
    preset.save()
    record = Preset.history.latest()
    pages = [history_of(preset), version_url(record), version_url(Preset.history.earliest())]

    told = [admin_client.get(page).content.decode() for page in pages]
    preset.delete()
    told.append(admin_client.get(reverse("admin:models_registry_preset_deleted")).content.decode())

    assert all("&lt;img" in page and "<img src=x" not in page for page in told)


def test_a_long_history_costs_the_same_queries(
    admin_client: Client, preset: Preset, django_assert_max_num_queries: Any
) -> None:
    for number in range(120):
        preset.ctx_size = number
        preset.save()

    with django_assert_max_num_queries(8):
        page = admin_client.get(history_of(preset)).content.decode()

    assert "page 1 of 3" in page
    assert (
        "context: <del>4096</del> → 0"
        in admin_client.get(f"{history_of(preset)}?p=3").content.decode()
    )


def test_a_history_and_its_versions_name_the_row_in_title_and_path(
    admin_client: Client, tmp_path: Path
) -> None:
    preset = make_preset("user/repo:Q4", make_model_file(tmp_path / "named.gguf"))
    record = Preset.history.filter(id=preset.pk).get()
    history = f"/admin/models_registry/preset/{preset.pk}/history/"

    for url, title in [
        (history, "History of user/repo:Q4"),
        (f"{history}{record.history_id}/", "user/repo:Q4, "),
    ]:
        page = admin_client.get(url).content.decode()
        assert f"<title> {title}" in page
        path_to_it = page[page.index("</title>") : page.index("corral-card")]
        assert f'href="/admin/models_registry/preset/{preset.pk}/change/"' in path_to_it


def test_the_history_of_what_was_deleted_names_it(admin_client: Client, tmp_path: Path) -> None:
    preset = make_preset("user/repo:Q4", make_model_file(tmp_path / "named.gguf"))
    pk = preset.pk
    preset.delete()

    page = admin_client.get(f"/admin/models_registry/preset/{pk}/history/").content.decode()

    assert "<title> History of user/repo:Q4 | Corral</title>" in page
