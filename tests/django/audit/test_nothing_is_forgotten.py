"""Every table is watched, or left out with a reason; every place that writes past the signals is
known; every door that changes something is tried."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps

from models_registry.audit import watched
from models_registry.models import Alias, Download, Group, Preset, Profile
from proxy.keys import create_key
from proxy.models import ApiKey, Limit, Membership, Team
from routerproj.api import api

from ..management import Manager, admin_key
from ..registry_rows import gguf
from .trail import last, told

ROOT = Path(__file__).resolve().parents[3]

LEFT_OUT = {
    "admin.LogEntry": "the admin's own log",
    "auth.Permission": "made by the code's migrations",
    "contenttypes.ContentType": "made by the code's migrations",
    "sessions.Session": "log-ins and log-outs are recorded themselves",
    "axes.AccessFailureLog": "failed log-ins are recorded themselves",
    "axes.AccessAttempt": "failed log-ins are recorded themselves",
    "axes.AccessAttemptExpiration": "failed log-ins are recorded themselves",
    "axes.AccessLog": "log-ins are recorded themselves",
    "otp_totp.TOTPDevice": "proxy/account/second_factor.py records it",
    "otp_static.StaticDevice": "proxy/account/second_factor.py records it",
    "otp_static.StaticToken": "proxy/account/second_factor.py records it",
    "models_registry.AuditRecord": "the trail itself",
    "models_registry.RegistryRevision": "counts changes of what is watched",
    "models_registry.FileMetadata": "read out of files",
    "models_registry.Measurement": "measured; who asks for one is recorded",
    "scheduler.InstanceRecord": "what the machine did, append-only",
    "scheduler.DecisionRecord": "what the machine decided, append-only",
    "proxy.UsageRecord": "what was used, append-only",
    "proxy.UsageContent": "what was asked and answered; turning it on is recorded",
    "proxy.UsageHour": "sums of usage",
    "proxy.UsageDay": "sums of usage",
}


def test_every_table_is_watched_or_left_out_for_a_reason() -> None:
    tables = {
        model._meta.label
        for model in apps.get_models()
        if model not in watched.all_of_them() and not model.__name__.startswith("Historical")
    }

    assert tables - LEFT_OUT.keys() == set()
    assert not {model._meta.label for model in watched.all_of_them()} & LEFT_OUT.keys()


def test_every_set_of_a_watched_table_is_watched() -> None:
    missing = {
        f"{each.type}.{field.name}"
        for each in watched.all_of_them().values()
        for field in each.model._meta.many_to_many
        if field.name not in each.sets
    }

    assert missing == set()


PAST_THE_SIGNALS = {
    "models_registry/audit/watching.py updated": "records it",
    "models_registry/audit/writing.py _insert": "the trail itself",
    "models_registry/audit/pruning.py prune": "records it",
    "models_registry/audit/triggers.py install": "no rows",
    "models_registry/audit/triggers.py remove": "no rows",
    "models_registry/audit/triggers.py missing": "no rows",
    "models_registry/bulk.py _delete": "records it",
    "models_registry/bulk.py _insert": "its caller records it",
    "models_registry/bulk.py _write": "its caller records it",
    "models_registry/bulk.py _record": "histories",
    "models_registry/downloads/pulse.py _beat": "progress",
    "models_registry/downloads/work.py _claimed": "progress",
    "models_registry/downloads/work.py _obey": "what was recorded when it was asked for",
    "models_registry/downloads/work.py _settle": "progress",
    "models_registry/indexing.py _keep": "headers of files",
    "models_registry/measurements.py _finish": "measurements",
    "models_registry/measurements.py _give_up": "measurements",
    "models_registry/measurements.py _ordered": "measurements",
    "models_registry/measurements.py claim": "measurements",
    "models_registry/measurements.py order": "measurements",
    "models_registry/measurements.py postpone": "measurements",
    "models_registry/measurements.py prune": "measurements",
    "models_registry/revision.py _raised": "the revision",
    "proxy/account/second_factor.py confirm": "records it",
    "proxy/account/second_factor.py new_recovery_codes": "records it",
    "proxy/last_uses.py _set_last_use": "when a key was last used",
    "proxy/queries.py _call": "no rows",
    "proxy/rollups/raising.py _written": "sums of usage",
    "proxy/usage/rows.py insert_contents": "usage",
    "proxy/usage/rows.py insert_rows": "usage",
    "routerproj/copying.py _empty": "what migrations have made, of a database that nobody has used",
    "routerproj/copying.py _go_on_counting": "no rows",
    "routerproj/database_checks.py _unfit": "no rows",
    "routerproj/sign_on_rows.py let_go": "which account is whose elsewhere; the user is recorded",
    "routerproj/postgresql/base.py set_autocommit": "no rows",
    "scheduler/runtime/recorder.py _close_open_rows": "the record of instances",
    "scheduler/runtime/recorder.py _write": "the record of instances",
    "scheduler/runtime/recorder.py _write_instance": "the record of instances",
}
WRITES = {"update", "bulk_create", "bulk_update", "_raw_delete", "execute", "executemany"}


def test_every_place_that_sends_no_signal_is_known() -> None:
    found = {
        f"{path.relative_to(ROOT)} {function.name}"
        for package in ("models_registry", "proxy", "scheduler", "routerproj")
        for path in (ROOT / package).rglob("*.py")
        if "migrations" not in path.parts
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(_writes(node) for node in ast.walk(function))
    }

    assert found == PAST_THE_SIGNALS.keys()


def _writes(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    is_of_a_dict = node.func.attr == "update" and (node.args or not node.keywords)
    return node.func.attr in WRITES and not is_of_a_dict


# Doors ------------------------------------------------------------------------------------


@pytest.fixture
def rows(preset: Preset, stand_in: Any) -> dict[str, Any]:
    """One of each, as the cases below name them."""
    from django.contrib.auth.models import User

    team = Team.objects.create(name="builders")
    person = User.objects.create_user("anna")
    create_key("laptop", "builders")
    key = ApiKey.objects.get(name="laptop")
    return {
        "preset": preset.name,
        "file": preset.model_file_id,
        "alias": Alias.objects.create(name="other", preset=preset).name,
        "group": Group.objects.create(name="large").name,
        "profile": Profile.objects.create(name="night").name,
        "team": team.pk,
        "key": key.public_id,
        "member": Membership.objects.create(user=person, team=team).pk,
        "limit": Limit.objects.create(team=team, concurrent=1).pk,
        "download": Download.objects.create(target="team/m").pk,
        "paused": Download.objects.create(target="team/n", state="paused", wanted="paused").pk,
    }


CHANGES_NOTHING = {"POST /fit": "answers a question"}

CASES: dict[str, tuple[str, Any, str]] = {
    # route: path, body, what a record says then; empty: it is so already, and there is none
    "POST /models": ("/models", {"path": "{file2}"}, "created model file"),
    "PATCH /models/{int:id}": ("/models/{file}", {"mmproj": "{file2}"}, "changed model file"),
    "DELETE /models/{int:id}": ("/models/{file}?cascade=true", None, "deleted model file"),
    "POST /rescan": ("/rescan", None, "created preset"),
    "POST /presets/{path:name}/load": ("/presets/{preset}/load", None, "loaded preset"),
    "POST /presets/{path:name}/unload": ("/presets/{preset}/unload", None, "unloaded preset"),
    "POST /presets/{path:name}/apply": ("/presets/{preset}/apply", None, "applied preset"),
    "POST /presets/{path:name}/measure": ("/presets/{preset}/measure", None, "measured preset"),
    "POST /presets/{path:name}/pin": ("/presets/{preset}/pin", None, "pinned preset"),
    "POST /presets/{path:name}/unpin": ("/presets/{preset}/unpin", None, ""),
    "POST /presets/{path:name}/clone": ("/presets/{preset}/clone", None, "created preset"),
    "POST /presets": ("/presets", {"name": "b", "model_file": "{file}"}, "created preset"),
    "PATCH /presets/{path:name}": ("/presets/{preset}", {"ctx_size": 7}, "changed preset"),
    "DELETE /presets/{path:name}": ("/presets/{preset}", None, "deleted preset"),
    "POST /aliases": ("/aliases", {"name": "c", "preset": "{preset}"}, "created alias"),
    "PATCH /aliases/{path:name}": ("/aliases/{alias}", {"name": "c"}, "changed alias"),
    "DELETE /aliases/{path:name}": ("/aliases/{alias}", None, "deleted alias"),
    "POST /import": (
        "/import", {"form": "ini", "text": "[c]\nmodel = {file2}\n"}, "created preset",
    ),
    "POST /groups": ("/groups", {"name": "small"}, "created group"),
    "PATCH /groups/{path:name}": ("/groups/{group}", {"exclusive": True}, "changed group"),
    "DELETE /groups/{path:name}": ("/groups/{group}", None, "deleted group"),
    "POST /profiles/{path:name}/activate": ("/profiles/{profile}/activate", None, ""),
    "POST /profiles/{path:name}/deactivate": (
        "/profiles/{profile}/deactivate", None, "switched off profile",
    ),
    "POST /profiles": ("/profiles", {"name": "day"}, "created profile"),
    "PATCH /profiles/{path:name}": (
        "/profiles/{profile}", {"presets": ["{preset}"]}, "changed profile",
    ),
    "DELETE /profiles/{path:name}": ("/profiles/{profile}", None, "deleted profile"),
    "PATCH /global-preset": (
        "/global-preset", {"options": "threads = 3"}, "changed global preset",
    ),
    "POST /downloads": ("/downloads", {"target": "team/o"}, "downloaded download"),
    "DELETE /downloads/{int:id}": ("/downloads/{download}", None, "deleted download"),
    "POST /downloads/{int:id}/pause": ("/downloads/{download}/pause", None, "paused download"),
    "POST /downloads/{int:id}/resume": ("/downloads/{paused}/resume", None, "resumed download"),
    "POST /downloads/{int:id}/cancel": (
        "/downloads/{download}/cancel", None, "cancelled download",
    ),
    "POST /keys": ("/keys", {"name": "new", "team": "builders"}, "created key"),
    "PATCH /keys/{str:public_id}": ("/keys/{key}", {"name": "old"}, "changed key"),
    "POST /keys/{str:public_id}/revoke": ("/keys/{key}/revoke", None, "revoked key"),
    "POST /keys/{str:public_id}/rotate": (
        "/keys/{key}/rotate", {"grace_hours": 1}, "rotated key",
    ),
    "POST /teams": ("/teams", {"name": "readers"}, "created team"),
    "PATCH /teams/{int:id}": ("/teams/{team}", {"weight": 2}, "changed team"),
    "DELETE /teams/{int:id}": ("/teams/{team}", None, "deleted team"),
    "PUT /teams/{int:id}/content": ("/teams/{team}/content", {"stored": True}, "content on team"),
    "POST /members": ("/members", {"user": "ben", "team": "builders"}, "created member"),
    "PATCH /members/{int:id}": ("/members/{member}", {"role": "lead"}, "changed member"),
    "DELETE /members/{int:id}": ("/members/{member}", None, "deleted member"),
    "POST /limits": ("/limits", {"key": "{key}", "concurrent": 2}, "created limit"),
    "PATCH /limits/{int:id}": ("/limits/{limit}", {"concurrent": 2}, "changed limit"),
    "DELETE /limits/{int:id}": ("/limits/{limit}", None, "deleted limit"),
    "PATCH /devices/{str:device}": ("/devices/Host", {"margin": 5}, "created device limit"),
}  # fmt: skip


def test_every_route_that_may_change_something_has_a_case() -> None:
    routes = {
        f"{method} {prefix}{path}".rstrip("/")
        for prefix, router in api._routers
        for path, view in router.path_operations.items()
        for operation in view.operations
        for method in operation.methods
        if method != "GET"
    }

    assert routes - CHANGES_NOTHING.keys() == CASES.keys()


@pytest.mark.django_db
@pytest.mark.parametrize("route", CASES)
def test_whoever_uses_a_route_is_recorded(
    route: str, rows: dict[str, Any], scheduler: Any, settings: Any, tmp_path: Path
) -> None:
    from django.contrib.auth.models import User

    path, body, expected = CASES[route]
    rows["file2"] = str(gguf(tmp_path / "models" / "found.gguf"))
    settings.CORRAL_MODELS_DIR = str(tmp_path / "models")
    User.objects.create_user("ben")
    manager = Manager(admin_key("robot"))
    before = last().number

    answer = manager.ask(route.partition(" ")[0], _filled(path, rows), _filled(body, rows))

    assert answer.status < 300, answer.text
    found = told("action", "object_type", "kind", "actor", "door", "origin", number__gt=before)
    done = {f"{action} {type}" for action, type, *_ in found}
    assert expected in done if expected else not done
    door = {"POST /import": "import", "POST /rescan": "rescan"}.get(route, "rest")
    for _, _, kind, actor, through, origin in found:
        assert (kind, through, origin) == ("key", door, "127.0.0.1")
        assert actor.startswith("the admin key robot (ck_")


def _filled(what: Any, rows: dict[str, Any]) -> Any:
    if isinstance(what, dict):
        return {name: _filled(value, rows) for name, value in what.items()}
    if isinstance(what, list):
        return [_filled(each, rows) for each in what]
    if not isinstance(what, str):
        return what
    for name, value in rows.items():
        if what == f"{{{name}}}":
            return value
        what = what.replace(f"{{{name}}}", str(value))
    return what
