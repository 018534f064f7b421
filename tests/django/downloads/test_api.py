"""Downloads in the management API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models_registry.models import Download, ModelFile, Preset
from tests.django.management import Manager, admin_key, session_of, staff
from tests.django.registry_rows import FakeScheduler, use_scheduler

from .conftest import GGUF, worked

pytestmark = pytest.mark.django_db


@pytest.fixture
def manager(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> Manager:
    use_scheduler(monkeypatch, FakeScheduler())
    return Manager(admin_key())


def test_one_is_asked_for_and_told_with_its_progress(manager: Manager, stand_in) -> None:
    stand_in.repository("team/m", {"m-Q8_0.gguf": GGUF})

    made = manager.post("/downloads", {"target": "team/m", "token": "hf_right"})
    before = manager.get(f"/downloads/{made.json['id']}").json
    worked(Download.objects.get())
    after = manager.get(f"/downloads/{made.json['id']}").json

    assert made.status == 201
    assert "token" not in made.json
    assert (before["state"], before["progress"], before["sidecars"]) == ("queued", None, ["mmproj"])
    assert (after["state"], after["progress"], after["name"]) == ("done", 1.0, "team/m:Q8_0")
    assert after["files"] == [
        {
            "path": "m-Q8_0.gguf",
            "role": "model",
            "bytes_done": len(GGUF),
            "bytes_total": len(GGUF),
        }
    ]
    assert after["asked_by"].startswith("the admin key robot")


def test_a_running_one_says_how_long_it_still_takes(manager: Manager) -> None:
    row = Download.objects.create(
        target="team/m",
        state="running",
        wanted="paused",
        bytes_done=250,
        bytes_total=1000,
        bytes_per_second=50,
    )

    told = manager.get(f"/downloads/{row.pk}").json

    assert (told["progress"], told["remaining_seconds"], told["wanted"]) == (0.25, 15.0, "paused")


def test_the_list_is_filtered_by_state(manager: Manager) -> None:
    for state in ("queued", "done"):
        Download.objects.create(target=f"team/{state}", state=state)

    assert manager.get("/downloads").json["count"] == 2
    [only] = manager.get("/downloads?state=done").json["items"]
    assert only["target"] == "team/done"
    assert manager.get("/downloads?state=odd").status == 422


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ({}, "target"),
        ({"target": ""}, "target"),
        ({"target": "nonsense"}, "target"),
        ({"target": "a/b", "kind": "ftp"}, "kind"),
        ({"target": "a/b", "sidecars": ["x"]}, "sidecars"),
        ({"target": "a/b", "state": "done"}, "state"),
        ({"target": "a/b", "load": "yes"}, "load"),
    ],
)
def test_a_body_that_makes_no_sense_is_refused_at_its_field(
    manager: Manager, body: dict[str, Any], at: str
) -> None:
    refused = manager.post("/downloads", body)

    assert (refused.status, refused.code) == (422, "validation_failed")
    assert refused.param is not None
    assert refused.param.startswith(at)


def test_it_is_paused_resumed_cancelled_and_deleted(manager: Manager) -> None:
    path = f"/downloads/{manager.post('/downloads', {'target': 'team/m'}).json['id']}"

    assert manager.post(f"{path}/pause").json["state"] == "paused"
    assert manager.post(f"{path}/pause").code == "conflict"
    assert manager.post(f"{path}/resume").json["state"] == "queued"
    assert manager.post("/downloads", {"target": "team/m"}).code == "conflict"
    assert manager.post(f"{path}/cancel").json["state"] == "cancelled"
    assert manager.post(f"{path}/resume", {"token": "hf_other"}).json["state"] == "queued"
    assert manager.post(f"{path}/cancel").status == 200
    assert manager.delete(path).status == 204
    assert manager.get(path).code == "not_found"


def test_the_files_go_only_when_that_was_asked(manager: Manager, stand_in, fetched) -> None:
    stand_in.repository("team/m", {"m-Q8_0.gguf": GGUF})
    row = fetched("team/m")
    path = Path(ModelFile.objects.get().path)

    manager.delete(f"/downloads/{row.pk}")
    assert path.exists()
    row = fetched("team/m")
    Preset.objects.create(name="mine", model_file=ModelFile.objects.get())
    assert manager.delete(f"/downloads/{row.pk}?files=true").code == "conflict"
    assert manager.delete(f"/downloads/{row.pk}?files=true&cascade=true").status == 204

    assert not path.exists()
    assert not Preset.objects.exists()
    assert not Download.objects.exists()


def test_deleting_files_takes_the_permission_to_delete_model_files(stand_in, fetched) -> None:
    stand_in.repository("team/m", {"m-Q8_0.gguf": GGUF})
    row = fetched("team/m")
    user = staff("models_registry.delete_download")

    refused = Manager(client=session_of(user)).delete(f"/downloads/{row.pk}?files=true")

    assert (refused.status, refused.code) == (403, "permission_denied")
    assert Path(ModelFile.objects.get().path).exists()


def test_each_needs_its_permission(stand_in) -> None:
    row = Download.objects.create(target="team/m", state="queued")
    viewer = session_of(staff("models_registry.view_download"), csrf=False)
    asker = Manager(client=viewer)

    assert asker.get("/downloads").status == 200
    for method, path in (
        ("POST", "/downloads"),
        ("POST", f"/downloads/{row.pk}/pause"),
        ("POST", f"/downloads/{row.pk}/cancel"),
        ("DELETE", f"/downloads/{row.pk}"),
    ):
        assert asker.ask(method, path, {"target": "a/b"}).status == 403
