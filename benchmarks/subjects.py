"""What is measured: a child by itself, behind a bare pass-through, and behind Corral.

The first two run the very command line that Corral gave to its own child, on another address.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.frame import Subject, process
from benchmarks.load import ROOT
from models_registry.engine_path import llama_server
from tests.support.asking import Client
from tests.support.gateway import Gateway, gateway
from tests.support.polling import eventually
from tests.support.prepared import clean_environment
from tests.support.processes import Process
from tests.support.quantised import quantised
from tests.support.tiny_model import real_model, tiny_model

STAND_IN = ROOT / "benchmarks" / "fast_upstream.py"
START_SECONDS = 60
SAVES = "--slot-save-path"
LARGE = "F32"
"""SmolLM2-135M-Instruct so is a file of 513 MiB."""


@dataclass(frozen=True)
class ChildCommand:
    """How Corral starts a child, taken from one that runs."""

    argv: tuple[str, ...]
    env: dict[str, str]

    @classmethod
    def of(cls, child: Process) -> ChildCommand:
        variables = Path(f"/proc/{child.pid}/environ").read_bytes().split(b"\0")
        pairs = (os.fsdecode(variable).partition("=") for variable in variables if variable)
        argv = list(child.argv)
        if SAVES in argv:  # a folder that goes with the child
            del argv[argv.index(SAVES) : argv.index(SAVES) + 2]
        return cls(tuple(argv), {name: value for name, _, value in pairs})

    def at(self, host: str, port: int = 1) -> list[str]:
        argv = list(self.argv)
        argv[argv.index("--host") + 1] = host
        argv[argv.index("--port") + 1] = str(port)
        return argv


@contextlib.contextmanager
def corral(
    folder: Path,
    child: str,
    *args: str,
    server: str = "uvicorn",
    models: Sequence[str] = ("alpha",),
) -> Iterator[Gateway]:
    """A gateway whose models are all of the kind `child`, the first of them loaded."""
    folder.mkdir()
    program = _stand_in(folder) if child == "stand-in" else llama_server()
    env = {"CORRAL_LLAMA_SERVER": str(program)}
    models_dir = folder / "models"
    place_models(models_dir, child, models)
    with gateway(
        folder, args=args, env=env, server=server, models={}, models_dir=models_dir
    ) as running:
        answer = running.client.chat(models[0])
        assert answer.status == 200, answer.body
        eventually(lambda: _is_measured(running), "no preset waits to be measured", START_SECONDS)
        yield running


def corral_subject(name: str, running: Gateway) -> Subject:
    """Several web processes are told apart."""
    roles = ("web", "scheduler", "jobs", "child")
    pids = {role: [p.pid for p in running.processes(role)] for role in roles}
    if len(pids["web"]) > 1:
        apart = {f"web {number}": [pid] for number, pid in enumerate(sorted(pids.pop("web")), 1)}
        pids = apart | pids
    return Subject(name, running.client.port, running.key, pids=pids)


@contextlib.contextmanager
def child_itself(command: ChildCommand, *, fresh_streams: bool) -> Iterator[Subject]:
    port = free_port()
    with process(command.at("127.0.0.1", port), command.env) as child:
        wait_until_it_answers(port)
        yield Subject("the child itself", port, "", fresh_streams, pids={"child": [child.pid]})


@contextlib.contextmanager
def bare_pass_through(command: ChildCommand, folder: Path) -> Iterator[Subject]:
    port, address = free_port(), str(folder / "bare.sock")
    front = [sys.executable, "-m", "uvicorn", "benchmarks.pass_through:application"]
    front += ["--app-dir", str(ROOT), "--port", str(port), "--no-access-log"]
    with (
        process(command.at(address), command.env) as child,
        process(front, os.environ | {"UPSTREAM": address}) as web,
    ):
        wait_until_it_answers(port)
        yield Subject(
            "bare pass-through, uvicorn", port, pids={"web": [web.pid], "child": [child.pid]}
        )


@contextlib.contextmanager
def llama_cpp_router(
    folder: Path, child: str, *args: str, models: Sequence[str] = ("alpha",)
) -> Iterator[Subject]:
    """llama-server without a model: it starts others of its own program. For the stand-in that
    program is exchanged for it once the router runs, by a file of the same name.

    It has a thread for every client: with its default it would serve few streams at once.
    """
    folder.mkdir()
    place_models(folder / "models", child, models)
    program, port = folder / "llama-server", free_port()
    shutil.copy(llama_server(), program)
    libraries = {"LD_LIBRARY_PATH": str(llama_server().resolve().parent.parent / "lib")}
    command = [str(program), "--host", "127.0.0.1", "--port", str(port), "--no-ui"]
    command += ["--models-dir", str(folder / "models"), "--threads-http", "256", "-t", "1", *args]
    with process(command, clean_environment() | libraries) as router:
        eventually(lambda: is_up(port), "the router answers", START_SECONDS)
        if child == "stand-in":
            program.rename(folder / "router")
            _stand_in(folder)
        wait_until_it_answers(port)
        children = [found.pid for found in psutil.Process(router.pid).children(recursive=True)]
        pids = {"router": [router.pid], "child": children}
        yield Subject("llama.cpp's router", port, fresh=True, pids=pids)


def is_up(port: int) -> bool:
    with contextlib.suppress(OSError):
        return Client(port, "").request("GET", "/health", timeout=5).status == 200
    return False


def _is_measured(running: Gateway) -> bool:
    """Measuring new presets takes a core for some seconds: not while we measure."""
    query = "SELECT state FROM models_registry_measurement"
    with contextlib.closing(sqlite3.connect(running.var / "corral.sqlite3", timeout=20)) as rows:
        states = {state for (state,) in rows.execute(query)}
    return bool(states) and "pending" not in states


def wait_until_it_answers(port: int) -> None:
    """A chat, that is: an engine that listens may still be loading."""

    def answers() -> bool:
        with contextlib.suppress(OSError):
            return Client(port, "").chat("alpha").status == 200
        time.sleep(0.1)
        return False

    eventually(answers, f"what listens on {port} answers", START_SECONDS)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def place_models(folder: Path, child: str, names: Sequence[str]) -> None:
    """`large` ones are files of their own: what is dropped from the page cache is nobody else's."""
    folder.mkdir(parents=True)
    for seed, name in enumerate(names):
        path = folder / f"{name}.gguf"
        if child == "smollm2":
            path.symlink_to(real_model())
        elif child == "large":
            shutil.copy(quantised(LARGE), path)
            with path.open("rb") as file:
                os.fsync(file.fileno())  # only what is written can be dropped
        else:
            tiny_model(folder, name, seed=seed)


def _stand_in(folder: Path) -> Path:
    """A program that is the upstream as a child, and the real engine when asked what it can do or
    what a model takes (the sockets of measuring are named m-…)."""
    program = folder / "llama-server"
    program.write_text(
        f"""#!/bin/sh
case "$*" in
    *--help*|*--version*|*/m-*.sock*) exec {llama_server()} "$@" ;;
    *) exec {sys.executable} {STAND_IN} "$@" ;;
esac
"""
    )
    program.chmod(0o755)
    return program
