"""A whole gateway, started as a person starts it, on throw-away folders and a port of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scheduler.run_folder import control_socket
from tests.support import prepared
from tests.support.asking import Client
from tests.support.polling import eventually
from tests.support.prepared import MANAGE, clean_environment
from tests.support.processes import Process, processes_of
from tests.support.tiny_model import tiny_model

OLLAMA = re.compile(r"Ollama +http://127\.0\.0\.1:(\d+)")
READY = re.compile(r"Corral is ready at http://127\.0\.0\.1:(\d+)")
KEY = re.compile(r"\bck_\w+_[\w-]+")
START_SECONDS = 90.0
Models = Mapping[str, Mapping[str, int]]
THREE_MODELS: Models = {"alpha": {"seed": 1}, "beta": {"seed": 2}, "gamma": {"seed": 3}}
SLOW = {"seed": 4, "blocks": 60}
"""A model that takes about 8 ms a token: a stream of a few hundred tokens can be interrupted."""


@dataclass
class Gateway:
    var: Path
    models_dir: Path
    environment: dict[str, str]
    process: subprocess.Popen[str]
    output: list[str] = field(default_factory=list)
    client: Client = field(default_factory=lambda: Client(0, ""))
    admin_key: str = ""

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.client.port}"

    @property
    def key(self) -> str:
        return self.client.key

    # What runs -------------------------------------------------------------------

    def processes(self, role: str = "") -> list[Process]:
        return [p for p in processes_of(self.var) if not role or p.role == role]

    def pid(self, role: str) -> int:
        """The one process in this role; several web workers share the oldest's."""
        return min(p.pid for p in self.processes(role))

    def children(self) -> list[Process]:
        return self.processes("child")

    def child_of(self, preset: str) -> Process:
        return next(child for child in self.children() if child.preset == preset)

    def kill(self, role: str) -> int:
        """SIGKILL to the process in this role; returns once it is gone."""
        victims = [p.pid for p in self.processes(role)]
        assert victims, f"no process is {role}"
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        eventually(
            lambda: not {p.pid for p in self.processes()} & set(victims),
            f"{role} {victims} is gone",
        )
        return victims[0]

    def wait_ready(self, seconds: float = 60.0) -> None:
        """Until it can serve again."""
        eventually(lambda: self._ready(), "GET /ready answers 200", seconds)

    def _ready(self) -> bool:
        with contextlib.suppress(OSError):
            return self.client.request("GET", "/ready", timeout=5).status == 200
        return False

    # What it says of itself -----------------------------------------------------------

    def models(self) -> dict[str, str]:
        """GET /models: each model's state by name; what llama.cpp has no word for is its detail."""
        listed = self.client.request("GET", "/models").json["data"]
        states = {model["id"]: model["status"] for model in listed}
        return {name: state.get("detail") or state["value"] for name, state in states.items()}

    def control(self, operation: str, **fields: Any) -> dict[str, Any]:
        """One request on the control socket."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(control_socket(self.var)))
            line = json.dumps({"op": operation, "id": 1, **fields}) + "\n"
            connection.sendall(line.encode())
            with connection.makefile() as replies:
                reply: dict[str, dict[str, Any]] = json.loads(replies.readline())
        assert "ok" in reply, reply
        return reply["ok"]

    def snapshot(self) -> dict[str, Any]:
        return self.control("snapshot")

    def instance_of(self, preset: str) -> dict[str, Any]:
        """Its live instance in the snapshot; empty when there is none."""
        instances = self.snapshot()["instances"]
        return next((i for i in instances if i["preset"] == preset), {})

    def unload_all(self) -> None:
        """Nothing loaded, and no child left."""
        for preset in {i["preset"] for i in self.snapshot()["instances"]}:
            self.control("unload", preset=preset)
        eventually(lambda: not self.children(), "every child is gone")
        eventually(lambda: not self.snapshot()["instances"], "every instance is forgotten")

    def starts(self) -> Counter[str]:
        """How often each preset was started so far, from the record. Nothing may be loaded: the
        record is written a moment later, and is whole once it says that everything has ended."""
        eventually(
            lambda: not self._recorded("WHERE ended_at IS NULL"), "the record ends every instance"
        )
        return Counter(self._recorded())

    def _recorded(self, where: str = "") -> list[str]:
        query = f"SELECT preset FROM scheduler_instancerecord {where}"
        return [preset for (preset,) in prepared.rows(self.var, query)]

    # What a person does ---------------------------------------------------------------

    def manage(
        self, *arguments: str, seconds: float = 60, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Another manage.py command on the same state."""
        return subprocess.run(
            [sys.executable, str(MANAGE), *arguments],
            env=self.environment | variables,
            capture_output=True,
            text=True,
            timeout=seconds,
        )

    def django(self, code: str) -> None:
        """Run `code` in Django's shell on the same state: what the admin's pages do. Nothing of the
        pages themselves is imported."""
        done = self.manage("shell", "--no-imports", "-c", code, CORRAL_PAGELESS="1")
        assert done.returncode == 0, done.stderr

    def interrupt(self) -> None:
        """What Ctrl-C or a service manager does."""
        self.process.send_signal(signal.SIGTERM)


@contextmanager
def gateway(
    folder: Path,
    *,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    server: str = "uvicorn",
    workers: int = 1,
    models: Models = THREE_MODELS,
    key: str = "",
    tables: bool = True,
    models_dir: Path | None = None,
) -> Iterator[Gateway]:
    """A gateway that answers. At the end it is asked to stop, and nothing of it may be left.

    Its `models` lie in a folder that no test writes to, and what earlier gateways measured of them
    is known; or in `models_dir`, which is made if need be and may hold others. Without `tables` it
    has to make these itself, and a first account and key, as on a person's first run: that takes
    seconds. `key` is for a later start on such a state, which prints none.
    """
    var = folder / "var"
    fresh = tables and not var.exists()
    if fresh:
        prepared.first_state(var)
    shared = models_dir is None
    if models_dir is None:
        models_dir = prepared.models_folder(models)
    else:
        for name, dims in models.items():
            tiny_model(models_dir, name, **dims)
    if fresh and shared:
        prepared.tell_measurements(var, models_dir)
    command = ["--port", "0", "--models-dir", str(models_dir), "--server", server]
    command += ["--web-workers", str(workers)] if workers != 1 else []
    # One thread a child: on two cores, several children with two each mostly wait for each other.
    with serve(var, [*command, "-t", "1", *args], env) as running:
        running.models_dir = models_dir
        try:
            _wait_until_ready(running)
            _give_keys(running, key, tables=tables)
            yield running
        finally:
            _stop(running)
            prepared.keep_measurements(var)


@contextmanager
def serve(
    var: Path, args: Sequence[str], env: Mapping[str, str] | None = None
) -> Iterator[Gateway]:
    """`manage.py serve` as a process; a block that fails prints what it said."""
    environment = (
        clean_environment() | {"CORRAL_VAR": str(var), "CORRAL_DEMO": "0"} | dict(env or {})
    )
    process = subprocess.Popen(
        [sys.executable, str(MANAGE), "serve", *args],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    running = Gateway(var, var, environment, process)
    reader = threading.Thread(target=_read_output, args=(running,), name="gateway output")
    reader.start()
    try:
        yield running
    except BaseException:
        print("\n".join(running.output))
        raise
    finally:
        _end_everything(running)
        reader.join(20)
        assert process.stdout
        process.stdout.close()


def ollama_port(running: Gateway) -> int:
    """Of one that was started with --ollama-port."""
    found = OLLAMA.search("\n".join(running.output))
    assert found, "it said nothing of Ollama's port"
    return int(found[1])


def ollama_root(running: Gateway) -> tuple[int, bytes]:
    """(status, body) of `/` on Ollama's port."""
    connection = http.client.HTTPConnection("127.0.0.1", ollama_port(running), timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", "/")
        answer = connection.getresponse()
        return answer.status, answer.read()


def _read_output(running: Gateway) -> None:
    assert running.process.stdout
    for line in running.process.stdout:
        running.output.append(line.rstrip("\n"))


def _wait_until_ready(running: Gateway) -> None:
    def port() -> int:
        text = "\n".join(running.output)
        assert running.process.poll() is None, f"serve ended with {running.process.returncode}"
        found = READY.search(text)
        return int(found[1]) if found else 0

    running.client.port = eventually(port, "the line that says it is ready", START_SECONDS)


def _give_keys(running: Gateway, key: str, *, tables: bool) -> None:
    if tables:
        state = prepared.state()
        running.admin_key = state.admin_key
        key = key or state.key
    running.client.key = key or _printed_key(running)


def _printed_key(running: Gateway) -> str:
    found = KEY.search("\n".join(running.output))
    assert found, "the first run printed no API key"
    return found[0]


def _stop(running: Gateway) -> None:
    if running.process.poll() is None:
        running.interrupt()
        running.process.wait(60)
    left = processes_of(running.var)
    assert not left, f"left over after serve had ended: {left}"


def _end_everything(running: Gateway) -> None:
    """Whatever a failed test left behind."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        left = processes_of(running.var)
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        if not left and running.process.poll() is not None:
            return
        time.sleep(0.02)
