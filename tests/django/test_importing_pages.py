"""Import and export, by page and by program: first what would change, then the change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from models_registry.models import Group, Preset

from .management import Manager, session_of, staff
from .registry_rows import FakeScheduler, gguf, make_model_file, make_preset, use_scheduler

pytestmark = pytest.mark.django_db
PAGE = "/admin/models_registry/preset/import/"
EXPORT = "/admin/models_registry/preset/export/"


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch, engine_stand_in: None, tmp_path: Path) -> Path:
    use_scheduler(monkeypatch, FakeScheduler())
    return gguf(tmp_path / "tiny.gguf")


def ini(weights: Path, more: str = "") -> str:
    return f"[tiny]\nmodel = {weights}\nctx-size = 512\n{more}"


def form(text: str = "", **fields: Any) -> dict[str, Any]:
    return {"form": "ini", "text": text, **fields}


def test_an_uploaded_file_is_shown_first_and_taken_then(
    admin_client: Client, weights: Path
) -> None:
    uploaded = SimpleUploadedFile("presets.ini", b"\xef\xbb\xbf" + ini(weights).encode())

    preview = admin_client.post(PAGE, form(file=uploaded))
    nothing_yet = Preset.objects.count()
    text = preview.context["form"].data["text"]
    done = admin_client.post(PAGE, form(text, apply="1"), follow=True)

    assert preview.context["report"].lines() == ["would add tiny"]
    assert nothing_yet == 0
    assert "added tiny" in done.content.decode()
    preset = Preset.objects.get()
    assert (preset.name, preset.ctx_size, preset.source) == ("tiny", 512, "admin")
    assert str(preset.history.get().history_user) == "admin"


def test_faults_are_told_by_their_lines_and_nothing_is_taken(
    admin_client: Client, weights: Path
) -> None:
    bad = ini(weights, "nonsense = 1\nctx-size = abc\n")

    page = admin_client.post(PAGE, form(bad, apply="1")).content.decode()

    assert "line 4" in page
    assert "line 5" in page
    assert not Preset.objects.exists()
    assert "Choose a file, or paste its text." in admin_client.post(PAGE, form()).content.decode()


def test_other_forms_are_taken_too(admin_client: Client, weights: Path) -> None:
    swap = (
        f"models:\n  tiny:\n    cmd: llama-server --port ${{PORT}} -m {weights} -c 256\n"
        "groups:\n  g:\n    swap: true\n    members: [tiny]\n"
    )

    admin_client.post(PAGE, form(swap, form="llama_swap", apply="1"))
    admin_client.post(PAGE, form(f"FROM {weights}\n", form="modelfile", name="mf", apply="1"))

    assert set(Preset.objects.values_list("name", flat=True)) == {"tiny", "mf"}
    assert Group.objects.get().one_at_a_time


def test_who_may_not_add_presets_imports_nothing(weights: Path) -> None:
    user = User.objects.create_user("limited", is_staff=True)
    client = Client()
    client.force_login(user)
    refused = client.post(PAGE, form(ini(weights), apply="1")).status_code
    user.user_permissions.set(Permission.objects.filter(codename="add_preset"))
    client.force_login(User.objects.get(pk=user.pk))

    assert refused == 403
    assert client.get(PAGE).status_code == 200
    assert client.post(PAGE, form(ini(weights), apply="1")).status_code == 403
    assert not Preset.objects.exists()


def test_presets_are_exported_as_a_file_that_is_imported_again(
    admin_client: Client, weights: Path, tmp_path: Path
) -> None:
    first = make_preset("first", make_model_file(tmp_path / "a.gguf"), ctx_size=4096, pinned=True)
    make_preset("second", first.model_file)

    every = admin_client.get(EXPORT)
    chosen = admin_client.post(
        "/admin/models_registry/preset/",
        {"action": "export", "_selected_action": [first.pk]},
    )
    Preset.objects.all().delete()
    admin_client.post(PAGE, form(chosen.content.decode(), apply="1"))

    assert 'filename="presets.ini"' in every["Content-Disposition"]
    assert "[second]" in every.content.decode()
    assert "[second]" not in chosen.content.decode()
    back = Preset.objects.get()
    assert (back.name, back.ctx_size, back.pinned) == ("first", 4096, True)


def test_programs_import_and_export(manager: Manager, tmp_path: Path) -> None:
    text = ini(gguf(tmp_path / "tiny.gguf"))

    tried = manager.post("/import", {"form": "ini", "text": text, "dry_run": True})
    nothing_yet = Preset.objects.count()
    done = manager.post("/import", {"form": "ini", "text": text})
    bad = manager.post("/import", {"form": "ini", "text": text + "nonsense = 1\n"})
    other = text.replace("512", "256")
    kept = manager.post("/import", {"form": "ini", "text": other})
    replaced = manager.post("/import", {"form": "ini", "text": other, "replace": True})

    assert (tried.json["added"], tried.json["dry_run"], nothing_yet) == (["tiny"], True, 0)
    assert done.json["added"] == ["tiny"]
    assert (bad.status, bad.param) == (422, "text")
    assert "line 4" in bad.message
    assert [each["name"] for each in kept.json["skipped"]] == ["tiny"]
    assert replaced.json["changed"] == ["tiny"]
    assert "ctx-size = 256" in manager.get("/export").text
    assert "[tiny]" in manager.get("/export?presets=tiny").text
    assert manager.get("/export?presets=nobody").code == "model_not_found"
    limited = Manager(client=session_of(staff("models_registry.add_preset")))
    assert limited.post("/import", {"form": "ini", "text": text}).status == 403
