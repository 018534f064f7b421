"""From `serve`'s options to its processes: their command lines and their environment. Pure."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from routerproj.serve.options import ServeOptions
from routerproj.serve.process import Role

PAGELESS = "CORRAL_PAGELESS"
KEY_VARIABLES = frozenset({"CORRAL_API_KEYS", "LLAMA_API_KEY"})


def child_environment(
    environment: Mapping[str, str], options: ServeOptions, command_line: Mapping[str, str]
) -> dict[str, str]:
    """What settings.py of every process reads; the command line is above the environment.

    An empty value counts as unset there, so what is empty here was empty in the environment too.
    Whether it shows pages, each process says for itself (manage.py).
    """
    own = {name: value for name, value in environment.items() if name != PAGELESS}
    return own | {
        "CORRAL_HOST": options.host,
        "CORRAL_PORT": str(options.port),
        "CORRAL_OLLAMA_PORT": "" if options.ollama_port is None else str(options.ollama_port),
        "CORRAL_SERVER": options.server,
        "CORRAL_WEB_WORKERS": str(options.web_workers),
        "CORRAL_DRAIN_TIMEOUT": str(options.drain_timeout_seconds),
        "CORRAL_NO_AUTH": "1" if options.no_auth else "0",
        "CORRAL_API_KEYS": ",".join(options.api_keys),
        "CORRAL_CORS_ORIGINS": ",".join(options.cors_origins),
        "CORRAL_MODELS_DIR": options.models_dir,
        "CORRAL_HF_CACHE": options.hf_cache,
        "CORRAL_OLLAMA_MODELS": options.ollama_models,
        "CORRAL_MODELS_PRESET": options.models_preset,
        "CORRAL_MODELS_MAX": str(options.models_max),
        "CORRAL_MODELS_AUTOLOAD": "1" if options.models_autoload else "0",
        "CORRAL_MEMORY_MARGIN": options.models_memory_margin,
        "CORRAL_COMMAND_LINE": json.dumps(dict(command_line)),
        "PYTHONUNBUFFERED": "1",
    }


def roles(
    manage: Path, options: ServeOptions, environment: Mapping[str, str], fds: Sequence[int]
) -> tuple[Role, list[Role], Role]:
    """Scheduler, web and jobs. Only web is told the keys."""

    def command(*arguments: str) -> list[str]:
        return [sys.executable, str(manage), *arguments]

    web_environment = dict(environment)
    if options.server == "daphne":
        web_environment["CORRAL_DAPHNE"] = "1"
    inherited = [word for fd in fds for word in ("--fd", str(fd))]
    web = [
        Role(
            name="web" if options.web_workers == 1 else f"web {number}",
            argv=command("runweb", *inherited, "--server", options.server),
            env=web_environment,
            pass_fds=tuple(fds),
            heartbeat=True,
        )
        for number in range(1, options.web_workers + 1)
    ]
    keyless = {name: value for name, value in environment.items() if name not in KEY_VARIABLES}
    scheduler = Role("scheduler", command("runscheduler"), keyless)
    return scheduler, web, Role("jobs", command("runjobs"), keyless, heartbeat=True)
