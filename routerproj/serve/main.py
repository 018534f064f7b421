"""From the command line to a running Corral: what is checked, prepared and said, in this order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from django.conf import settings
from django.core.checks import run_checks
from django.db import Error as DatabaseError

from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing, ModelsFolderMissing, NotRegistered, OptionError
from models_registry.log_redaction import Redaction
from models_registry.options.catalogue import engine_catalogue
from models_registry.options.command_line import parse_overlay
from models_registry.sources.reading import places_of
from routerproj.serve import first_run
from routerproj.serve.engine_environment import warnings_about
from routerproj.serve.fetching import wanted
from routerproj.serve.listening import CannotListen, is_loopback, listen_on, url_of
from routerproj.serve.options import USAGE, BadOption, HelpWanted, ServeOptions, parse
from routerproj.serve.output import Output, box, curl_line
from routerproj.serve.process import death_signal_available
from routerproj.serve.roles import child_environment, roles
from routerproj.serve.state_lock import StateInUse, StateLock
from routerproj.serve.supervisor import CannotStart, Plan, Supervisor
from scheduler.run_folder import UnsafeRunFolder, make_run_folder

WRONG_USAGE = 2
CANNOT_RUN = 1
INTERRUPTED = 130


def main(tokens: Sequence[str], out: TextIO, err: TextIO) -> int:
    """The exit code: 0 after a stop that was asked for, 2 for what cannot be served like that."""
    try:
        options, command_line = understand(tokens)
        warnings = about_the_environment()
    except HelpWanted:
        out.write(USAGE)
        return 0
    except (BadOption, OptionError, EngineMissing, CannotListen) as error:
        err.write(f"serve: {error}\n")
        return WRONG_USAGE
    output = Output(
        out,
        as_json=settings.CORRAL_LOG_FORMAT == "json",
        redaction=Redaction(settings.CORRAL_LOG_SECRETS),
    )
    for warning in warnings:
        output.say(f"  WARNING {warning}")
    code, complaint = _run_to_its_end(options, command_line, output)
    output.flush()
    if complaint:
        err.write(f"serve: {complaint}\n")
    return code


def _run_to_its_end(
    options: ServeOptions, command_line: Mapping[str, str], output: Output
) -> tuple[int, str]:
    """The exit code, and what to say of it."""
    try:
        return run(options, command_line, output), ""
    except (ModelsFolderMissing, NotRegistered) as error:
        return WRONG_USAGE, str(error)
    except (
        StateInUse,
        CannotListen,
        CannotStart,
        UnsafeRunFolder,
        first_run.UnusableDatabase,
        DatabaseError,
        OSError,
    ) as error:
        return CANNOT_RUN, str(error)
    except KeyboardInterrupt:  # before the processes were started
        return INTERRUPTED, ""


def understand(tokens: Sequence[str]) -> tuple[ServeOptions, dict[str, str]]:
    """The options, and llama-server's among them by canonical key."""
    options = parse(tokens, defaults())
    if options.no_auth and not is_loopback(options.host):
        raise BadOption(
            f"--no-auth would let anybody who reaches {options.host} use the models:"
            " it is only for a loopback address such as 127.0.0.1"
        )
    wanted(options)
    if options.api_key_file:
        options = replace(options, api_keys=(*options.api_keys, *keys_of(options.api_key_file)))
    command_line = dict(settings.CORRAL_COMMAND_LINE)
    if options.engine:
        command_line |= parse_overlay(options.engine, engine_catalogue(llama_server()))
    return options, command_line


def about_the_environment() -> list[str]:
    """Warnings for people. Raises BadOption for what would let every model fail."""
    try:
        catalogue = engine_catalogue(llama_server())
    except EngineMissing:
        return []  # a check says so
    return warnings_about(os.environ, catalogue)


def defaults() -> ServeOptions:
    """What the environment says."""
    return ServeOptions(
        host=settings.CORRAL_HOST,
        port=settings.CORRAL_PORT,
        ollama_port=settings.CORRAL_OLLAMA_PORT,
        server=settings.CORRAL_SERVER,
        web_workers=settings.CORRAL_WEB_WORKERS,
        drain_timeout_seconds=settings.CORRAL_DRAIN_TIMEOUT,
        no_auth=settings.CORRAL_NO_AUTH,
        api_keys=tuple(settings.CORRAL_API_KEYS),
        cors_origins=tuple(settings.CORRAL_CORS_ORIGINS),
        models_dir=settings.CORRAL_MODELS_DIR,
        hf_cache=settings.CORRAL_HF_CACHE,
        ollama_models=settings.CORRAL_OLLAMA_MODELS,
        models_preset=settings.CORRAL_MODELS_PRESET,
        models_max=settings.CORRAL_MODELS_MAX,
        models_autoload=settings.CORRAL_MODELS_AUTOLOAD,
        models_memory_margin=settings.CORRAL_MEMORY_MARGIN,
    )


def keys_of(path: str) -> tuple[str, ...]:
    """As llama-server reads it: one a line, `#` begins a comment. Raises BadOption."""
    try:
        lines = Path(path).expanduser().read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"--api-key-file {path}: {error}") from error
    keys = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    if not keys:
        raise BadOption(f"--api-key-file {path}: there is no key in it")
    return keys


def run(options: ServeOptions, command_line: Mapping[str, str], output: Output) -> int:
    lock = StateLock(settings.CORRAL_VAR)
    make_run_folder(settings.CORRAL_VAR)
    listeners = listen_on(options.host, options.port, options.ollama_port)
    with ExitStack() as closing:
        for each in listeners:
            closing.enter_context(each)
        url = url_of(listeners[0])
        ollama = url_of(listeners[1]) if len(listeners) > 1 else ""
        output.say(f"Corral starts at {url}, its state in {settings.CORRAL_VAR}")
        for line in settings.CORRAL_OLLAMA_DEFAULTS.lines:
            output.say(f"  {line}")
        _warn(output)
        first_run.prepare_database()
        credentials = first_run.first_credentials()
        places = places_of(
            models_dir=options.models_dir,
            hf_cache=options.hf_cache,
            ollama_models=options.ollama_models,
            models_preset=options.models_preset,
        )
        lines, load = first_run.offer_models(
            places, model=options.model, demo=settings.CORRAL_DEMO, fetched=wanted(options)
        )
        for line in lines:
            output.say(f"  {line}")
        if credentials is not None:
            output.say(_shown_once(credentials, url))
        output.say(_how_to_use(options, credentials, url, first_run.some_model(load), ollama))
        first_run.let_go_of_the_database()
        lock.announce(url)
        return asyncio.run(_supervise(_plan(options, command_line, listeners, url, load), output))


def _plan(
    options: ServeOptions,
    command_line: Mapping[str, str],
    listeners: Sequence[socket.socket],
    url: str,
    load: str,
) -> Plan:
    port, *others = [listener.getsockname()[1] for listener in listeners]
    options = replace(options, port=port, ollama_port=others[0] if others else None)
    environment = child_environment(os.environ, options, command_line)
    scheduler, web, jobs = roles(
        settings.BASE_DIR / "manage.py", options, environment, [each.fileno() for each in listeners]
    )
    return Plan(
        scheduler=scheduler,
        web=web,
        jobs=jobs,
        control_socket=settings.CORRAL_CONTROL_SOCKET,
        listeners=listeners,
        url=url,
        drain_timeout_seconds=options.drain_timeout_seconds,
        load=load,
    )


async def _supervise(plan: Plan, output: Output) -> int:
    supervisor = Supervisor(plan, output)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup's wish
            loop.add_signal_handler(number, supervisor.stop)
    clean = await supervisor.run()
    output.say("Corral has stopped")
    return 0 if clean else CANNOT_RUN


def _warn(output: Output) -> None:
    for message in run_checks(tags=["corral"]):
        output.say(f"  {'ERROR' if message.is_serious() else 'WARNING'} {message.msg}")
        if message.hint:
            output.say(f"    {message.hint}")
    if not death_signal_available():
        output.say(
            "  WARNING setpriv (util-linux) is missing: `kill -9` of serve leaves its processes"
        )


def _shown_once(credentials: first_run.Credentials, url: str) -> str:
    lines = [
        "Shown once, keep them:",
        "",
        f"admin    {url}/admin/",
        f"account  {credentials.account}",
        f"password {credentials.password}",
    ]
    if credentials.api_key:
        lines.append(f"API key  {credentials.api_key}")
    return box(lines)


def _how_to_use(
    options: ServeOptions,
    credentials: first_run.Credentials | None,
    url: str,
    model: str,
    ollama: str = "",
) -> str:
    """`ollama` is where Ollama's clients come, empty without a port of their own."""
    key: str | None = "$CORRAL_KEY"
    if options.no_auth:
        key = None
    elif credentials is not None and credentials.api_key:
        key = credentials.api_key
    lines = [
        f"  API       {url}/v1  (OpenAI clients: base_url)",
        *([f"  Ollama    {ollama}  (its clients: OLLAMA_HOST)"] if ollama else []),
        f"  admin     {url}/admin/",
        f"  documents {settings.BASE_DIR / 'README.md'} and {settings.BASE_DIR / 'docs'}",
    ]
    if not is_loopback(options.host):
        names = ", ".join(settings.ALLOWED_HOSTS)
        lines.append(
            f"  The admin answers under {names} only: name others in CORRAL_ALLOWED_HOSTS."
            " The API is in the clear: put TLS in front of it."
        )
    if not model:
        lines.append("  No model yet: put .gguf files into a folder and say --models-dir FOLDER.")
        return "\n".join(lines)
    if key == "$CORRAL_KEY":
        lines.append("  A new key: manage.py createkey NAME. Then export CORRAL_KEY=..., and try")
    else:
        lines.append("  Try")
    return "\n".join([*lines, "", curl_line(url, model, key), ""])
