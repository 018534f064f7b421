"""uvicorn or daphne: what Corral's front costs on either, against the least possible.

    python -m benchmarks.asgi_server [--rounds 5] [--seconds 3]

All subjects run side by side for the whole time and are asked in turn, round by round, so that a
disturbance hits all of them; the median of the rounds counts. Writes its section of results.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.load import Load, per_second
from benchmarks.results import write_section

FOLDER = Path(__file__).resolve().parent
UPSTREAM = FOLDER / "fast_upstream.py"
LOADS = [
    Load("1 client", 1, stream=False),
    Load("32 clients", 32, stream=False),
    Load("32 clients, 64-event streams", 32, stream=True),
]


@dataclass(frozen=True)
class Subject:
    name: str
    port: int
    key: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="corral-bench-")))
        # The settings are read here too, to find the engine: on a state folder of nobody's
        os.environ |= {
            "CORRAL_VAR": str(folder / "unused"),
            "DJANGO_SETTINGS_MODULE": "routerproj.settings",
        }
        subjects = [
            stack.enter_context(_upstream_itself()),
            stack.enter_context(_bare_pass_through(folder)),
            stack.enter_context(_corral(folder, "uvicorn")),
            stack.enter_context(_corral(folder, "daphne")),
        ]
        rates = _measure(subjects, options.rounds, options.seconds)
    section = _table(rates, options.rounds, options.seconds)
    write_section(FOLDER / "results.md", "ASGI server", section)
    print(section)


def _measure(
    subjects: list[Subject], rounds: int, seconds: float
) -> dict[str, dict[str, list[float]]]:
    """Rates by subject and load. The first round only warms up and is dropped."""
    rates: dict[str, dict[str, list[float]]] = {s.name: {} for s in subjects}
    for number in range(rounds + 1):
        for load in LOADS:
            for subject in subjects:
                duration = seconds if number else min(seconds, 1.0)
                rate = per_second(subject.port, load, subject.key, duration)
                if number:
                    rates[subject.name].setdefault(load.name, []).append(rate)
        print(f"round {number} of {rounds}", file=sys.stderr)
    return rates


def _table(rates: dict[str, dict[str, list[float]]], rounds: int, seconds: float) -> str:
    names = [load.name for load in LOADS]
    lines = [
        "Whole answers a second; median (lowest to highest) of "
        f"{rounds} interleaved rounds of {seconds:g} s.",
        "",
        _machine(),
        "",
        "| | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(names),
    ]
    for subject, by_load in rates.items():
        cells = [_cell(by_load[name]) for name in names]
        lines.append(f"| {subject} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "Generator, subject and upstream share the machine; events of a stream that come close "
        "together travel on as one write, so a proxy may pass more streams than it is asked to.",
    ]
    return "\n".join(lines)


def _cell(values: list[float]) -> str:
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def _machine() -> str:
    cpus = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in cpus if line.startswith("model name")]
    packages = ", ".join(
        f"{name} {version(name)}"
        for name in ("uvicorn", "uvloop", "httptools", "daphne", "aiohttp")
    )
    cpu = f"{len(models)} cores, {models[0]}" if models else platform.machine()
    python = platform.python_version()
    return f"{time.strftime('%Y-%m-%d')}, {cpu}, Linux, Python {python}, {packages}."


@contextlib.contextmanager
def _upstream_itself() -> Iterator[Subject]:
    port = _free_port()
    command = [sys.executable, str(UPSTREAM), "--tcp", str(port)]
    with _running(command, port):
        yield Subject("the upstream itself", port)


@contextlib.contextmanager
def _bare_pass_through(folder: Path) -> Iterator[Subject]:
    port, address = _free_port(), str(folder / "upstream.sock")
    upstream = [sys.executable, str(UPSTREAM), "--host", address]
    front = [sys.executable, "-m", "uvicorn", "benchmarks.pass_through:application"]
    front += ["--port", str(port), "--no-access-log", "--log-level", "warning"]
    with _running(upstream, 0), _running(front, port, UPSTREAM=address):
        yield Subject("bare pass-through, uvicorn", port)


@contextlib.contextmanager
def _corral(folder: Path, server: str) -> Iterator[Subject]:
    from tests.support.gateway import gateway  # needs the settings

    engine = _fake_engine(folder / server)
    with gateway(
        folder / server,
        args=["--parallel", "64"],
        env={"CORRAL_LLAMA_SERVER": str(engine)},
        server=server,
        models={"alpha": {}},
    ) as running:
        assert running.client.chat("alpha").status == 200
        yield Subject(f"Corral, {server}", running.client.port, running.key)


def _fake_engine(folder: Path) -> Path:
    """A program that is the upstream as a child, and the real engine when asked what it can do."""
    from models_registry.engine_path import llama_server  # needs the settings

    folder.mkdir()
    program = folder / "llama-server"
    program.write_text(
        f"""#!/bin/sh
case "$*" in
    *--help*|*--version*) exec {llama_server()} "$@" ;;
    *) exec {sys.executable} {UPSTREAM} "$@" ;;
esac
"""
    )
    program.chmod(0o755)
    return program


@contextlib.contextmanager
def _running(command: list[str], port: int, **env: str) -> Iterator[None]:
    """A process that listens on `port` (0: do not wait for it), and ends with the block."""
    process = subprocess.Popen(
        command,
        cwd=FOLDER.parent,
        env=os.environ | env,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 20
        while port and not _listens(port):
            assert process.poll() is None, f"{command} ended with {process.returncode}"
            assert time.monotonic() < deadline, f"{command} does not listen"
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.communicate()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
