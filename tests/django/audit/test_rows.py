"""What is saved, deleted or written in bulk is in the trail, with before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group as PermissionGroup
from django.contrib.auth.models import Permission, User
from django.db import transaction

from models_registry import bulk, kept_secrets
from models_registry.models import Alias, AuditRecord, Preset, Profile
from models_registry.restricted import HIDDEN
from proxy.keys import create_key
from proxy.models import ApiKey, Limit, Team

from ..registry_rows import make_model_file, make_preset
from .trail import changes, last

pytestmark = pytest.mark.django_db


@pytest.fixture
def preset(tmp_path: Path) -> Preset:
    return make_preset("first", make_model_file(tmp_path / "a.gguf"), ctx_size=4096)


def test_a_new_row_is_told_with_what_it_holds_beyond_its_defaults(preset: Preset) -> None:
    record = last(object_type="preset")

    assert (record.action, record.object_id, record.object_name) == (
        "created",
        str(preset.pk),
        "first",
    )
    assert changes(record) == {
        "name": [None, "first"],
        "model_file": [None, f"{preset.model_path} (#{preset.model_file_id})"],
        "ctx_size": [None, 4096],
    }


def test_a_save_is_told_by_what_it_changes_and_nothing_else(preset: Preset) -> None:
    preset.ctx_size, preset.tags = 8192, "small"
    preset.save()

    assert last().action == "changed"
    assert changes(last()) == {"ctx_size": [4096, 8192], "tags": ["", "small"]}


def test_a_save_that_changes_nothing_leaves_no_record(preset: Preset) -> None:
    before = AuditRecord.objects.count()

    preset.save()

    assert AuditRecord.objects.count() == before


def test_what_goes_with_another_row_says_with_which(preset: Preset) -> None:
    alias = Alias.objects.create(name="other", preset=preset)
    key = alias.pk

    preset.delete()

    record = last(object_type="alias", action="deleted")
    assert (record.object_id, record.note) == (str(key), "with the preset that it belonged to")
    gone = last(object_type="preset", action="deleted")
    assert changes(record)["preset"] == [f"first (#{gone.object_id})", None]


def test_a_change_that_is_taken_back_leaves_no_record(preset: Preset) -> None:
    before = AuditRecord.objects.count()

    with transaction.atomic():
        preset.ctx_size = 1
        preset.save()
        preset.delete()
        transaction.set_rollback(True)

    assert AuditRecord.objects.count() == before


@pytest.mark.django_db(transaction=True)
def test_a_record_that_cannot_be_written_takes_the_change_back(monkeypatch: Any) -> None:
    user = User.objects.create_user("anna")
    monkeypatch.setattr("models_registry.audit.writing._insert", lambda *_: 1 / 0)

    user.is_staff = True
    with pytest.raises(ZeroDivisionError):
        user.save()

    assert not User.objects.get().is_staff


def test_pinning_is_called_so(preset: Preset) -> None:
    preset.pinned = True
    preset.save(update_fields=["pinned"])

    assert (last().action, changes(last())) == ("pinned", {"pinned": [False, True]})


def test_rows_written_in_bulk_are_told_one_by_one(preset: Preset, tmp_path: Path) -> None:
    rows = [Preset(name=f"p{n}", model_file=preset.model_file, ctx_size=n) for n in range(3)]
    bulk.create(rows, "an import")
    for row in rows:
        row.ctx_size = 7
        row.base = preset
    bulk.update(rows, ["ctx_size", "base"], "an import")
    bulk.delete_presets([rows[0].pk], "an import")

    of_one = AuditRecord.objects.filter(object_type="preset", object_name="p0").order_by("number")
    created, changed, gone = of_one
    assert [each.action for each in of_one] == ["created", "changed", "deleted"]
    assert {each.note for each in of_one} == {"an import"}
    assert changes(created)["name"] == [None, "p0"]
    assert changes(changed) == {
        "base": [None, f"first (#{preset.pk})"],
        "ctx_size": [0, 7],
    }
    assert changes(gone)["name"] == ["p0", None]


def test_who_is_in_a_set_is_told_from_either_side(preset: Preset) -> None:
    profile = Profile.objects.create(name="night")
    profile.presets.add(preset)
    assert changes(last()) == {"presets": [[], ["first"]]}

    profile.presets.clear()
    assert changes(last()) == {"presets": [["first"], []]}

    preset.profiles.add(profile)
    assert (last().object_type, last().object_name) == ("profile", "night")
    assert changes(last()) == {"presets": [[], ["first"]]}


def test_rights_are_told(preset: Preset) -> None:
    user = User.objects.create_user("anna", password="a password")
    group = PermissionGroup.objects.create(name="editors")
    user.groups.add(group)
    assert changes(last(object_type="user")) == {"groups": [[], ["editors"]]}

    right = Permission.objects.get(codename="change_preset")
    group.permissions.set([right])
    assert changes(last(object_type="permission group"))["permissions"] == [[], [str(right)]]

    user.is_superuser = True
    user.save()
    assert changes(last()) == {"is_superuser": [False, True]}


def test_no_secret_is_in_it(preset: Preset) -> None:
    user = User.objects.create_user("anna", password="old password")
    user.set_password("new password")
    user.save()
    assert (last().action, changes(last())) == ("password set", {"password": [HIDDEN, HIDDEN]})

    text = create_key("laptop")
    key = ApiKey.objects.get(public_id=text.split("_")[1])
    preset.environment = "HF_TOKEN=hf_canary\nLANG=C"
    preset.command_line = "vllm serve --api-key sk-canary --port ${port}"
    preset.upstream_key = kept_secrets.keep("canary")
    preset.request_set = {"api_key": "canary"}
    preset.save()

    trail = " ".join(str(row) for row in AuditRecord.objects.values_list())
    assert "LANG=C" in trail
    for secret in (text, key.digest, user.password, "canary", preset.upstream_key):
        assert secret not in trail


def test_keys_teams_and_limits_are_in_the_hands_of_their_team(db: None) -> None:
    team = Team.objects.create(name="builders")
    create_key("laptop", "builders")
    key = ApiKey.objects.get(name="laptop")
    Limit.objects.create(key=key, concurrent=3)
    key.revoked_at = key.created_at
    key.save()
    team.keeps_content = True
    team.save()

    told = AuditRecord.objects.filter(team=team.pk).order_by("number")
    assert list(told.values_list("object_type", "action")) == [
        ("team", "created"),
        ("key", "created"),
        ("limit", "created"),
        ("key", "revoked"),
        ("team", "content on"),
    ]


def test_what_only_the_machine_writes_is_not_told(db: None) -> None:
    create_key("laptop")
    user = User.objects.create_user("anna")
    before = AuditRecord.objects.count()

    ApiKey.objects.get().save(update_fields=["last_used_at"])
    user.save(update_fields=["last_login"])

    assert AuditRecord.objects.count() == before
