"""What Corral takes before anybody asks: memory of each process, and the time until it answers."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.frame import Scope, rounds_of, say, spread, table
from benchmarks.subjects import free_port, is_up
from tests.support import prepared
from tests.support.gateway import READY, Gateway, serve
from tests.support.polling import eventually

HEADING = "Footprint"
MOST_MIB, MOST_SECONDS = 300, 3.0
"""The aims: of all processes together, idle; and from the command to the first answer."""
ROLES = ("serve", "scheduler", "web", "jobs")
IDLE_SECONDS = 10.0
SECONDS = 60.0
_PSS = re.compile(r"^Pss: +(\d+) kB$", re.MULTILINE)


def section(folder: Path, scope: Scope) -> str:
    """The first start is the warm-up: it makes the tables."""
    starts: list[Mapping[str, float]] = []
    memory: list[Mapping[str, float]] = []
    prepared.first_state(folder / "var")
    for number in scope.numbers:
        taken, kept = _round(folder)
        if number:
            starts.append(taken)
            memory.append(kept)
        say(f"round {number} of {scope.rounds}")
    answers = [start["GET /health answers"] for start in starts]
    whole = [sum(kept.values()) for kept in memory]
    return "\n\n".join(
        [
            "`manage.py serve` with its default settings on a state that is there and has no "
            f"models; {rounds_of(scope)}.",
            table(
                ["", "measured", "aim", ""],
                [
                    _aim("seconds until it answers", answers, MOST_SECONDS, ".2f"),
                    _aim("MiB of all processes, idle", whole, MOST_MIB, ",.0f"),
                ],
            ),
            "Seconds from the command until:",
            table(
                ["", "s"], [[what, spread([s[what] for s in starts], ".2f")] for what in starts[0]]
            ),
            f"Proportional set size (what several share is counted once), {IDLE_SECONDS:g} s after "
            "the start:",
            table(
                ["", "MiB"], [[role, spread([m[role] for m in memory], ".1f")] for role in ROLES]
            ),
        ]
    )


def _aim(what: str, figures: list[float], aim: float, form: str) -> list[str]:
    reached = "reached" if sorted(figures)[len(figures) // 2] <= aim else "not reached"
    return [what, spread(figures, form), f"at most {aim:g}", reached]


def _round(folder: Path) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Seconds until what was there; and MiB by role."""
    port, begun = free_port(), time.monotonic()
    (folder / "models").mkdir(exist_ok=True)
    arguments = ["--port", str(port), "--models-dir", str(folder / "models")]
    with serve(folder / "var", arguments) as running:
        eventually(lambda: is_up(port), "it answers", SECONDS)
        taken = {"GET /health answers": time.monotonic() - begun}
        eventually(lambda: any(map(READY.search, running.output)), "it says it is ready", SECONDS)
        taken["it says that it is ready"] = time.monotonic() - begun
        time.sleep(IDLE_SECONDS)
        memory = {role: _mib(running, role) for role in ROLES}
        running.interrupt()
        running.process.wait(SECONDS)
    return taken, memory


def _mib(running: Gateway, role: str) -> float:
    pids = [p.pid for p in running.processes(role)] if role != "serve" else [running.process.pid]
    return sum(pss_kib(pid) for pid in pids) / 1024


def pss_kib(pid: int) -> int:
    """0 for a process that has gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
        return int(found[1]) if found else 0
    return 0
