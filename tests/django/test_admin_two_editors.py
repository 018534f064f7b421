"""Two people edit one preset: the second is told who did what, and loses nothing typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from models_registry.models import Alias, Preset

from .registry_rows import (
    FakeScheduler,
    make_model_file,
    make_preset,
    use_scheduler,
    use_stand_in_engine,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _around(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    use_scheduler(monkeypatch, FakeScheduler())


@pytest.fixture
def preset(tmp_path: Path) -> Preset:
    return make_preset("first", make_model_file(tmp_path / "a.gguf"), ctx_size=4096)


class Editor:
    """Someone with the preset's page open since `opened`."""

    def __init__(self, name: str, preset: Preset) -> None:
        self.client = Client()
        self.client.force_login(User.objects.create_superuser(name))
        self.url = reverse("admin:models_registry_preset_change", args=[preset.pk])
        self.form = self.client.get(self.url).context["adminform"].form

    def save(self, **typed: Any) -> Any:
        values = {name: self.form[name].value() for name in self.form.fields} | typed
        sent = {name: value for name, value in values.items() if value not in (None, False)}
        sent |= {"aliases-TOTAL_FORMS": 0, "aliases-INITIAL_FORMS": 0}
        response = self.client.post(self.url, sent)
        if response.status_code == 200:
            self.form = response.context["adminform"].form
        return response

    def told(self) -> str:
        return " ".join(self.form.non_field_errors())

    def shown(self, field: str) -> Any:
        return self.form[field].value()


@pytest.fixture
def anna(preset: Preset) -> Editor:
    return Editor("anna", preset)


@pytest.fixture
def bert(preset: Preset) -> Editor:
    return Editor("bert", preset)


def test_the_second_is_told_and_may_save_again(preset: Preset, anna: Editor, bert: Editor) -> None:
    assert anna.save(ctx_size="8192").status_code == 302

    assert bert.save(parallel="2").status_code == 200

    assert "anna changed context from 4096 to 8192 (20" in bert.told()
    assert (bert.shown("parallel"), bert.shown("ctx_size")) == ("2", "8192")
    preset.refresh_from_db()
    assert preset.parallel is None
    assert bert.save().status_code == 302
    preset.refresh_from_db()
    assert (preset.ctx_size, preset.parallel) == (8192, 2)


def test_where_both_typed_what_the_second_typed_stays_on_the_page(
    preset: Preset, anna: Editor, bert: Editor
) -> None:
    anna.save(ctx_size="8192")

    bert.save(ctx_size="2048")

    assert bert.shown("ctx_size") == "2048"
    assert "differs from theirs in: Context" in bert.told()


def test_switches_and_choices_of_the_others_are_shown_too(
    preset: Preset, anna: Editor, bert: Editor
) -> None:
    anna.save(pinned="on", embeddings="true", flash_attn="on", extra_options="top-k = 7")

    bert.save(parallel="2")
    bert.save()

    preset.refresh_from_db()
    assert (preset.pinned, preset.embeddings, preset.flash_attn) == (True, True, "on")
    assert (preset.extra_options, preset.parallel) == ("top-k = 7", 2)


def test_a_third_edit_meanwhile_is_told_again(preset: Preset, anna: Editor, bert: Editor) -> None:
    anna.save(ctx_size="8192")
    bert.save(parallel="2")
    preset.refresh_from_db()
    preset.threads = 3
    preset.save()

    assert bert.save().status_code == 200
    assert "threads from unset to 3" in bert.told()
    assert "anna" not in bert.told()


def test_a_value_that_cannot_be_saved_is_kept_beside_the_warning(
    preset: Preset, anna: Editor, bert: Editor
) -> None:
    anna.save(n_gpu_layers="7")

    bert.save(n_gpu_layers="many")

    assert bert.shown("n_gpu_layers") == "many"
    assert bert.form.errors["n_gpu_layers"]
    assert "anna changed GPU layers" in bert.told()


def test_a_changed_alias_counts_as_a_change_of_the_preset(
    preset: Preset, anna: Editor, bert: Editor
) -> None:
    response = anna.client.post(
        anna.url,
        {name: anna.shown(name) or "" for name in anna.form.fields if anna.shown(name) is not False}
        | {"aliases-TOTAL_FORMS": 1, "aliases-INITIAL_FORMS": 0, "aliases-0-name": "other"},
    )
    assert response.status_code == 302
    assert Alias.objects.get().name == "other"

    assert bert.save(parallel="2").status_code == 200
    assert "anna changed" in bert.told()


def test_a_form_without_its_version_is_refused(preset: Preset, anna: Editor) -> None:
    anna.save(ctx_size="8192", seen_version="")

    preset.refresh_from_db()
    assert preset.ctx_size == 4096
    assert "open the page again" in anna.told()


def test_a_preset_deleted_meanwhile_is_not_saved(
    preset: Preset, anna: Editor, bert: Editor
) -> None:
    preset.delete()

    assert bert.save(parallel="2").status_code == 302
    assert Preset.objects.count() == 0
