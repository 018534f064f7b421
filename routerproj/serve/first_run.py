"""What has to be there before anything is served: tables, an account, a key, models."""

from __future__ import annotations

import itertools
import os
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connections, transaction

from models_registry.demo import register_demo
from models_registry.errors import ModelsFolderMissing
from models_registry.models import Preset, Source
from models_registry.registration import register_model
from models_registry.sources.discovery import rescan
from models_registry.sources.reading import Places
from models_registry.tables import missing_migrations
from models_registry.validation import file_problem
from proxy.keys import create_key
from proxy.models import DEFAULT_TEAM, FOR_MEMBERS, ApiKey, Membership, Team
from routerproj.database_checks import check_database
from routerproj.serve.fetching import offer_or_fetch

ACCOUNT = "admin"
KEY_NAME = "first run"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Shown once. `api_key` is empty when there was a key already."""

    account: str
    password: str
    api_key: str


class UnusableDatabase(Exception):
    """The message says what is wrong, and what to do."""


def prepare_database() -> None:
    """Every start: an update brings its own migrations. Raises UnusableDatabase."""
    if problems := check_database(None, databases=["default"]):
        raise UnusableDatabase("\n".join(f"{each.msg}\n  {each.hint}" for each in problems))
    if missing_migrations():
        call_command("migrate", interactive=False, verbosity=0)
    if settings.CORRAL_OIDC is not None:
        _migrate_apart()


def _migrate_apart() -> None:
    """Single sign-on's tables, whose library is not loaded in this process."""
    environment = {name: text for name, text in os.environ.items() if name != "CORRAL_PAGELESS"}
    manage = [sys.executable, str(settings.BASE_DIR / "manage.py")]
    command = [*manage, "migrate", "--noinput", "-v0", "--skip-checks"]  # serve has its own
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnusableDatabase(f"single sign-on's tables cannot be made: {done.stderr.strip()}")


def first_credentials() -> Credentials | None:
    """The account and the key of a first run; None when there is an account already.

    There is no way over the web to make the first account: who starts the process gets it.
    """
    users = get_user_model()
    with transaction.atomic():
        if users.objects.exists():
            return None
        password = secrets.token_urlsafe(15)
        admin = users.objects.create_superuser(ACCOUNT, password=password)
        team, _ = Team.objects.get_or_create(name=DEFAULT_TEAM)
        Membership.objects.create(user=admin, team=team, role=Membership.Role.LEAD)
        api_key = "" if ApiKey.objects.exists() else create_key(KEY_NAME, scopes=FOR_MEMBERS)
    return Credentials(ACCOUNT, password, api_key)


def offer_models(
    places: Places, *, model: str, demo: bool, fetched: tuple[str, str] = ("", "")
) -> tuple[list[str], str]:
    """What there is to serve: lines for people, and the name of the preset to load. `fetched` is
    the kind and the target of a download, or empty.

    Raises ModelsFolderMissing or NotRegistered for what the command line names and is not there.
    """
    lines = []
    loaded = ""
    if demo:
        lines.append(register_demo())
    if places.presets_file is not None and not places.presets_file.is_file():
        raise ModelsFolderMissing(f"--models-preset: there is no file {places.presets_file}")
    if places.folders() or places.presets_file is not None:
        report = rescan(places)
        if report.vanished:
            raise ModelsFolderMissing("; ".join(report.vanished))
        lines += report.lines()
    if model:
        loaded = register_model(Path(model).expanduser().absolute()).name
        lines.append(f"{model} is offered as {loaded}")
    kind, target = fetched
    if kind:
        line, loaded = offer_or_fetch(kind, target)
        lines.append(line)
    return lines, loaded


def some_model(preferred: str) -> str:
    """A model for the example, the demo's or one whose file can be read if there is such a one;
    empty when none is offered."""
    presets = list(Preset.objects.select_related("model_file").order_by("id"))
    if any(preset.name == preferred for preset in presets):
        return preferred
    presets.sort(key=lambda preset: preset.source != Source.DEMO)
    sound = (each for each in presets if not each.model_path or not file_problem(each.model_path))
    return next((preset.name for preset in (*itertools.islice(sound, 1), *presets)), "")


def let_go_of_the_database() -> None:
    """`serve` itself needs it no more."""
    connections.close_all()
