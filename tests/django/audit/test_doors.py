"""Whoever comes through whatever door is recorded with who they are, from where, and by which."""

from __future__ import annotations

import getpass
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from models_registry.audit import actors
from models_registry.client_address import parse_proxies
from models_registry.downloads import asking
from models_registry.models import AuditRecord, Download, Preset
from models_registry.tasks import rescan_sources
from proxy.audit_notes import AuditNotes, by_asker, done_by
from proxy.callers import Caller, Policy
from proxy.carriage import Request
from proxy.keys import create_key
from proxy.models import ApiKey, Membership, Team

from ..downloads.conftest import GGUF, worked
from ..management import Manager, session_of
from ..registry_rows import FakeScheduler, gguf, make_model_file, make_preset, use_scheduler
from .trail import changes, last, told

pytestmark = pytest.mark.django_db
PASSWORD = "a long password"


@pytest.fixture
def anna() -> User:
    return User.objects.create_superuser("anna", password=PASSWORD)


def where(record: AuditRecord) -> tuple[str, str, str]:
    return record.actor, record.door, record.origin


def test_the_admin(
    anna: User, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_scheduler(monkeypatch, FakeScheduler())
    settings.CORRAL_TRUSTED_PROXIES = parse_proxies("127.0.0.1")
    preset = make_preset("first", make_model_file(tmp_path / "a.gguf"))
    client = session_of(anna)

    client.post(
        reverse("admin:models_registry_preset_changelist"),
        {"action": "pin", "_selected_action": [preset.pk]},
        headers={"X-Forwarded-For": "192.0.2.7", "X-Request-Id": "req-1"},
    )

    record = last()
    assert where(record) == ("anna", "admin", "192.0.2.7")
    assert (record.action, record.object_id, record.request_id) == (
        "pinned",
        str(preset.pk),
        "req-1",
    )
    assert (record.kind, record.user, record.note) == ("user", anna.pk, "pinned")


def test_a_load_in_the_admin(anna: User, preset: Preset, scheduler: Any) -> None:
    session_of(anna).post(
        reverse("admin:models_registry_preset_changelist"),
        {"action": "load", "_selected_action": [preset.pk]},
    )

    assert (last().action, last().object_name, *where(last())) == (
        "loaded", preset.name, "anna", "admin", "127.0.0.1",
    )  # fmt: skip


def test_a_load_that_the_scheduler_refuses_is_none(
    manager: Manager, preset: Preset, scheduler: Any
) -> None:
    from scheduler.protocol import ErrorBody

    scheduler.refuses = ErrorBody("model_too_large", "too large")
    before = last().number

    assert manager.post(f"/presets/{preset.name}/load").status >= 400
    assert last().number == before


def test_a_member_on_their_own_page(anna: User) -> None:
    team = Team.objects.create(name="builders")
    Membership.objects.create(user=anna, team=team)
    key = ApiKey.objects.create(team=team, user=anna, name="laptop", public_id="abcdefgh")

    session_of(anna).post(reverse("account:revoke", args=[key.public_id]))

    assert (last().action, last().team, last().note) == ("revoked", team.pk, "")
    assert where(last()) == ("anna", "account", "127.0.0.1")


def test_log_ins_and_log_outs() -> None:
    anna = User.objects.create_superuser("anna", password=PASSWORD)
    client, login = Client(), reverse("admin:login")

    client.post(login, {"username": "anna", "password": "wrong"})
    client.post(login, {"username": "nobody" * 90, "password": "wrong"})
    client.post(login, {"username": "anna", "password": PASSWORD})
    client.post(reverse("admin:logout"))

    assert told("action", "actor", "object_id", origin="127.0.0.1") == [
        ("login failed", "nobody", str(anna.pk)),
        ("login failed", "nobody", ""),
        ("logged in", "anna", str(anna.pk)),
        ("logged out", "anna", str(anna.pk)),
    ]
    assert PASSWORD not in str(AuditRecord.objects.values_list())


def test_a_session_in_the_management_api(anna: User, preset: Preset, scheduler: Any) -> None:
    Manager(client=session_of(anna)).patch(f"/presets/{preset.name}", {"ctx_size": 512})

    assert where(last()) == ("anna", "rest", "127.0.0.1")
    assert changes(last()) == {"ctx_size": [4096, 512]}


def test_an_import_by_its_command(
    engine_stand_in: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_scheduler(monkeypatch, FakeScheduler())
    file = tmp_path / "presets.ini"
    file.write_text(f"[first]\nmodel = {gguf(tmp_path / 'a.gguf')}\nctx-size = 512\n")

    call_command("import_presets", file)

    record = last(object_type="preset")
    assert where(record) == (getpass.getuser(), "import", str(file))
    assert changes(record)["ctx_size"] == [None, 512]


def test_a_rescan_and_who_asked_for_it(tmp_path: Path, settings: Any) -> None:
    gguf(tmp_path / "models" / "new.gguf")
    settings.CORRAL_MODELS_DIR = str(tmp_path / "models")

    with actors.job("rescan"):
        rescan_sources()

    assert told("action", "object_type", "kind", "actor", "door") == [
        ("created", "model file", "job", "rescan", "rescan"),
        ("created", "preset", "job", "rescan", "rescan"),
    ]


@pytest.mark.django_db(transaction=True)  # its pulse has a connection of its own
def test_a_download_says_who_asked_and_its_job_for_whom_it_works(stand_in: Any) -> None:
    stand_in.repository("team/m", {"m-Q8_0.gguf": GGUF})

    row = asking.create(Download.Kind.HUB, "team/m", asked_by="anna")
    worked(row)

    asked, of_job = last(object_type="download"), last(object_type="preset")
    assert (asked.action, changes(asked)["target"]) == ("downloaded", [None, "team/m"])
    assert where(of_job) == (f"download {row.pk}, asked for by anna", "job", "")


def request_to(path: str, **scope: Any) -> Request:
    told = {"path": path, "client": ("192.0.2.7", 1), **scope}
    return Request(told, None, None, "req-7", [])  # type: ignore[arg-type]


def caller(team: Team) -> Caller:
    return Caller("builders", "abcdefgh", Policy(team_id=team.pk), key_name="laptop")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("path", "door"), [("/models/load", "models"), ("/api/chat", "ollama")])
def test_the_gateways_own_paths(preset: Preset, path: str, door: str) -> None:
    team = Team.objects.create(name="builders")

    @async_to_sync
    async def noted() -> None:
        notes = AuditNotes()
        await notes.note("loaded", preset.name, caller(team), request_to(path))
        await notes.close()

    noted()

    record = last()
    assert where(record) == ("laptop (ck_abcdefgh)", door, "192.0.2.7")
    assert (record.object_id, record.key, record.team) == (str(preset.pk), "abcdefgh", team.pk)
    assert record.request_id == "req-7"


def test_an_alias_is_recorded_as_its_preset(preset: Preset) -> None:
    from models_registry.audit.asked import asked_of
    from models_registry.models import Alias

    Alias.objects.create(name="other", preset=preset)
    asked_of("unloaded", "other", note="at once")

    assert (last().object_name, last().note) == (preset.name, "asked for as other; at once")


def test_who_changes_models_with_an_admin_key(preset: Preset) -> None:
    from models_registry.access import Asker

    asker = Asker("the admin key robot (ck_abcdefgh)", everything=True, key="abcdefgh", team=1)
    done_by(by_asker(asker, request_to("/models")), preset.delete)

    assert where(last()) == ("the admin key robot (ck_abcdefgh)", "models", "192.0.2.7")


def test_commands_are_their_callers(db: None) -> None:
    create_key("laptop")

    record = last(object_type="key")
    assert (record.kind, record.actor, record.door) == (
        "command line",
        getpass.getuser(),
        "command",
    )
    assert record.origin.startswith("command line: ")


OUTSIDE = """
import sys
sys.argv = ["/anywhere/manage.py", "createkey", "laptop"]
from models_registry.audit.actors import of_process
print(of_process().origin)
"""


def test_a_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = subprocess.run(
        [sys.executable, "-c", OUTSIDE], capture_output=True, text=True, check=True
    )

    assert found.stdout.strip() == "command line: createkey"


def test_who_used_sudo_is_named_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "anna")

    assert actors.of_process().actor.name == f"anna (as {getpass.getuser()})"
