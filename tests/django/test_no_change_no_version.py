"""A change to what is so already is none: no version, no history, nothing for the scheduler."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from models_registry.models import Alias, ModelFile, Preset
from models_registry.revision import registry_revision
from proxy.models import Team
from scheduler.models import DeviceLimit

from .admin_forms import NO_LIMITS, NO_MEMBERS

pytestmark = pytest.mark.django_db

PATH = "/presets/user/repo:Q4_K_M"


def kept() -> tuple[object, ...]:
    records = (Preset.history.count(), Alias.history.count(), ModelFile.history.count())
    others = (Team.history.count(), DeviceLimit.history.count())
    return (Preset.objects.get().version, registry_revision(), *records, *others)


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [
        ("PATCH", PATH, {}),
        ("PATCH", PATH, {"ctx_size": 4096, "pinned": True, "threads": None}),
        ("PATCH", PATH, {"name": "user/repo:Q4_K_M", "version": 1}),
        ("POST", f"{PATH}/pin", None),
        ("PATCH", "/aliases/other", {}),
        ("PATCH", "/aliases/other", {"name": "other", "preset": "user/repo:Q4_K_M"}),
        ("PATCH", "/teams/1", {}),
        ("PATCH", "/teams/1", {"weight": 1, "priority": "normal"}),
        ("PATCH", "/devices/CUDA0", {}),
        ("PATCH", "/devices/cuda0", {"budget": 4096, "margin": None}),
    ],
)
def test_the_management_api_makes_no_version_of_what_is_so_already(
    manager, preset, verb, path, body
):
    Preset.objects.update(pinned=True)
    Alias.objects.create(name="other", preset=preset)
    DeviceLimit.objects.create(device="CUDA0", budget=4096)
    before = kept()

    answer = manager.ask(verb, path, body)

    assert answer.status == 200
    name = answer.json.get("name", answer.json.get("device"))
    assert name in ("user/repo:Q4_K_M", "other", "default", "CUDA0")
    assert kept() == before


def test_a_change_is_one_still(manager, preset):
    assert manager.patch(PATH, {"ctx_size": 2048}).json["version"] == 2
    assert manager.post(f"{PATH}/pin").json["version"] == 3


def test_a_form_saved_as_it_was_makes_no_version(admin_client: Client, preset: Preset) -> None:
    alias = Alias.objects.create(name="other", preset=preset)
    team = Team.objects.get()
    before = kept()

    for page, fields in [
        (reverse("admin:models_registry_alias_change", args=[alias.pk]),
         {"name": "other", "preset": preset.pk}),
        (reverse("admin:models_registry_modelfile_change", args=[preset.model_file_id]),
         {"path": preset.model_file.path, "mmproj": ""}),
        (reverse("admin:proxy_team_change", args=[team.pk]),
         {"name": team.name, "weight": "1", "priority": "normal", **NO_MEMBERS, **NO_LIMITS,
          "member_scopes": team.member_scopes}),
    ]:  # fmt: skip
        assert admin_client.post(page, fields).status_code == 302

    assert kept() == before
