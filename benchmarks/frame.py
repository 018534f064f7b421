"""What every benchmark stands on: subjects side by side, asked in turn, and figures as text."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import psutil

from benchmarks.load import ROOT, Load, Order, Outcome, run

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PACKAGES = ("uvicorn", "uvloop", "httptools", "aiohttp", "daphne", "llama-cpp-python")


@dataclass(frozen=True)
class Scope:
    """How much is measured."""

    rounds: int = 5
    seconds: float = 2.0
    children: tuple[str, ...] = ("stand-in", "tiny", "smollm2", "large")
    steps: int = 4
    """How many sizes a sweep goes through, the smallest first."""
    beside: Path = Path()
    """The folder of the results: charts go there too."""
    once: bool = False
    """Nothing is done twice: whether it works, not how fast it is."""

    @property
    def numbers(self) -> range:
        """Of the rounds: 0 only warms up."""
        return range(1, 2) if self.once else range(self.rounds + 1)

    def swaps(self, usual: int) -> int:
        return 1 if self.once else usual


@dataclass(frozen=True)
class Subject:
    """Something that answers on a port of loopback, and the processes that it takes."""

    name: str
    port: int
    key: str = ""
    fresh_streams: bool = False
    """It closes the connection after a stream, whatever it said."""
    fresh: bool = False
    """It does so after every answer."""
    pids: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    outcome: Outcome
    cpu: Mapping[str, float]
    """µs of CPU per answer, by process; the load's among them."""


Samples = dict[tuple[str, str], list[Sample]]
"""By name of the subject and of the load; one sample a round."""


def measured(subjects: Sequence[Subject], loads: Sequence[Load], scope: Scope) -> Samples:
    """All subjects live for the whole time and are asked in turn, round by round, so that a
    disturbance hits all of them. The first round only warms up and is dropped."""
    samples: Samples = {(s.name, load.name): [] for s in subjects for load in loads}
    for number in scope.numbers:
        for load in loads:
            for subject in subjects:
                seconds = scope.seconds if number else min(scope.seconds, 1.0)
                sample = _sample(subject, load, seconds)
                if number:
                    samples[subject.name, load.name].append(sample)
        say(f"round {number} of {scope.rounds}")
    return samples


def _sample(subject: Subject, load: Load, seconds: float) -> Sample:
    before = {name: _cpu_seconds(pids) for name, pids in subject.pids.items()}
    fresh = subject.fresh or (subject.fresh_streams and load.stream)
    try:
        outcome = run(Order(subject.port, subject.key, load, seconds, fresh))
    except RuntimeError as failure:
        raise RuntimeError(f"{subject.name}: {failure}") from failure
    spent = {name: _cpu_seconds(pids) - before[name] for name, pids in subject.pids.items()}
    spent["load"] = outcome.cpu_seconds
    return Sample(outcome, {name: cpu / outcome.answers * 1e6 for name, cpu in spent.items()})


class CpuClock:
    """What processes spend from here on."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._before = _cpu_seconds(pids)

    def spent(self) -> float:
        return _cpu_seconds(self._pids) - self._before


def _cpu_seconds(pids: Sequence[int]) -> float:
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / CLOCK_TICKS


# Figures as text ---------------------------------------------------------------------------------


def spread(values: Sequence[float], form: str = ",.0f") -> str:
    """The median, and the lowest to the highest."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def rounds_of(scope: Scope) -> str:
    rounds = "one round" if scope.rounds == 1 else f"{scope.rounds} interleaved rounds"
    return f"median (lowest to highest) of {rounds}"


def machine() -> str:
    """What the figures were measured on, and what else it had to do."""
    cpus = re.findall(r"^model name\s*: *(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = psutil.virtual_memory().total / 2**30
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{time.strftime('%Y-%m-%d')}, {_commit()}; {os.cpu_count()} cores, "
        f"{cpus[0] if cpus else platform.machine()}, {memory:.1f} GiB; Linux {platform.release()}, "
        f"Python {platform.python_version()}, {versions}. Load average at the start: {load}."
    )


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    with contextlib.suppress(OSError):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode == 0:
            return f"commit {done.stdout.strip()}"
    return "no checkout"


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


# Processes ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def process(
    command: Sequence[str], env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block. Its stdin is a pipe: a child ends when that closes."""
    started = subprocess.Popen(
        list(command),
        env=dict(os.environ if env is None else env),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()
