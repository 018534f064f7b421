"""System checks: what would keep Corral from working, with an id, before it does.

docs/messages.md explains each id.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register

from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing
from models_registry.options.catalogue import bare_environment, engine_catalogue
from routerproj.secret import OPEN_TO_OTHERS, open_files
from scheduler.run_folder import UnsafeRunFolder, check_run_folder
from scheduler.telemetry import PROTOCOL, other_protocols

TAG = "corral"
ENGINE_SECONDS = 20


@register(TAG)
def check_state_folder(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    if os.access(settings.CORRAL_VAR, os.W_OK | os.X_OK):
        return []
    return [
        Error(
            f"the state folder {settings.CORRAL_VAR} is not writable",
            hint="Set CORRAL_VAR to a folder of the user that runs Corral.",
            id="corral.E001",
        )
    ]


@register(TAG)
def check_state_is_private(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    var: Path = settings.CORRAL_VAR
    if not var.is_dir():
        return []
    files = open_files(var)
    if files:
        return [
            Warning(
                f"other accounts may read {', '.join(map(str, files))}",
                hint="They hold sessions and digests of passwords and keys. Their owner can close"
                " them: chmod go= FILE.",
                id="corral.W004",
            )
        ]
    if var.stat().st_mode & OPEN_TO_OTHERS:
        return [
            Warning(
                f"other accounts may enter the state folder {var}",
                hint="Its files are closed to them. Unless you share it on purpose: chmod 700",
                id="corral.W003",
            )
        ]
    return []


@register(TAG)
def check_sockets_folder(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    try:
        check_run_folder(settings.CORRAL_RUN_FOLDER)
    except UnsafeRunFolder as error:
        return [
            Error(
                f"the sockets' folder is not safe: {error}",
                hint="Others could put a socket of theirs there. Remove it, or set CORRAL_VAR.",
                id="corral.E002",
            )
        ]
    return []


@register(TAG)
def check_engine(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """A warning: everything but running a model works without it."""
    try:
        program = llama_server()
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=bare_environment(),
            timeout=ENGINE_SECONDS,
            check=False,
        )
    except EngineMissing as error:
        return [Warning(str(error), id="corral.W001")]
    except (OSError, subprocess.TimeoutExpired) as error:
        return [_does_not_run(str(error))]
    if done.returncode == 0:
        return _knows_its_options(program)
    words = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    how = f"it exits with {done.returncode}" + "".join(f": {word}" for word in words)
    return [_does_not_run(f"{program}: {how}")]


def _knows_its_options(program: Path) -> list[CheckMessage]:
    try:
        engine_catalogue(program)
    except EngineMissing as error:
        return [
            Warning(
                f"no model can be run: {error}",
                hint="Set CORRAL_LLAMA_SERVER to a llama-server, or unset it to use Corral's own.",
                id="corral.W005",
            )
        ]
    return []


def _does_not_run(reason: str) -> Warning:
    return Warning(
        f"the engine does not run: {reason}",
        hint="Built on another machine? `make engine` builds it for this one.",
        id="corral.W002",
    )


@register(TAG)
def check_telemetry(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    others = other_protocols(os.environ) if settings.CORRAL_TELEMETRY else []
    if not others:
        return []
    return [
        Warning(
            f"OpenTelemetry's data is sent as {PROTOCOL}, not as {', '.join(others)} has it",
            hint="Let the endpoint be one that takes it: a collector's port 4318.",
            id="corral.W006",
        )
    ]
