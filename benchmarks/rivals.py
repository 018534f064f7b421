"""Others that are measured beside Corral, on a machine that has them.

    CORRAL_BENCH_RIVALS='llama-swap=./start-llama-swap {models} {llama_server} {port}'

One a line: its name and what starts it. `{models}` is a folder with alpha.gguf (and beta.gguf,
where models are swapped), `{llama_server}` the engine that Corral runs, `{port}` the port of
loopback at which it has to serve `alpha` and `beta`, one of them at a time, by OpenAI's API without
a key. It is ended with its process group.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from benchmarks.frame import Subject
from benchmarks.subjects import free_port, place_models, wait_until_it_answers
from models_registry.engine_path import llama_server

VARIABLE = "CORRAL_BENCH_RIVALS"


def commands() -> dict[str, str]:
    """By name. Raises ValueError for a line that is none."""
    found = {}
    for line in filter(None, map(str.strip, os.environ.get(VARIABLE, "").splitlines())):
        name, equals, command = line.partition("=")
        if not (name.strip() and equals and "{port}" in command):
            raise ValueError(f"{VARIABLE}: {line!r} is not NAME=COMMAND with a {{port}}")
        found[name.strip()] = command.strip()
    return found


@contextlib.contextmanager
def rivals(folder: Path, child: str, models: Sequence[str] = ("alpha",)) -> Iterator[list[Subject]]:
    """All that are named, each with model files of its own, the first of them loaded."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(_rival(folder / f"rival-{number}", name, command, child, models))
            for number, (name, command) in enumerate(commands().items())
        ]


@contextlib.contextmanager
def _rival(
    folder: Path, name: str, command: str, child: str, models: Sequence[str]
) -> Iterator[Subject]:
    place_models(folder / "models", child, models)
    port = free_port()
    known = {"models": folder / "models", "llama_server": llama_server(), "port": port}
    argv = [word.format(**known) for word in shlex.split(command)]
    started = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until_it_answers(port)
        children = [found.pid for found in psutil.Process(started.pid).children(recursive=True)]
        pids = {"rival": [started.pid], "child": children}
        yield Subject(name, port, fresh_streams=True, pids=pids)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
