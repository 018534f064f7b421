"""How long a swap takes beside llama.cpp's own router: with the newcomer's file in the page cache,
and with a file that has to come from the disk."""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.charts import Bars, bar_charts
from benchmarks.frame import Scope, Subject, rounds_of, say, spread, table
from benchmarks.rivals import rivals
from benchmarks.subjects import ChildCommand, corral, llama_cpp_router
from benchmarks.swap_time import IDLE_SECONDS, Child, first_token
from scheduler.runtime.page_cache import is_cached
from tests.support.gateway import Gateway

HEADING = "A swap beside the rivals"
WARM_AIM, COLD_AIM = 1.05, 0.8
COLD_MATTERS = 1.5
"""The aim for a cold file counts where a start costs so many times what a warm one does."""
TITLES = {
    "tiny": "A tiny model",
    "smollm2": "SmolLM2-135M-Instruct, Q4_1",
    "large": "SmolLM2-135M-Instruct, F32 (513 MiB)",
}
SWAPS = {"tiny": 5, "smollm2": 3, "large": 3}
"""How many each round takes the median of."""
MODELS = ("alpha", "beta")
CHART = "rival_swaps.svg"
ROUTER = "llama.cpp's router"
PROBES = 64
"""Pages that are looked at before a file counts as dropped."""


@dataclass(frozen=True)
class Swapper:
    """Something that has one model at a time, in files of its own."""

    subject: Subject
    folder: Path

    def swap(self, wanted: str, *, cold: bool) -> float:
        """Seconds from the request to the first event of its answer."""
        if cold:
            drop(self.folder / f"{wanted}.gguf")
        time.sleep(IDLE_SECONDS)
        begun = time.time()
        with socket.create_connection(("127.0.0.1", self.subject.port)) as connection:
            return first_token(connection, wanted, self.subject.key) - begun


@dataclass
class Figures:
    """Of each round: seconds by what was asked; and a plain start's, cold by warm."""

    warm: dict[str, list[float]] = field(default_factory=dict)
    cold: dict[str, list[float]] = field(default_factory=dict)
    starts: list[tuple[float, float]] = field(default_factory=list)


def section(folder: Path, scope: Scope) -> str:
    parts = [
        "One model at a time (`--models-max 1`), A loaded and idle: from the request for B to the "
        "first event of its answer's stream. llama.cpp's router is the same binary as the "
        "children. Each subject has model files of its own; *cold*: the newcomer's was dropped "
        f"from the page cache before (`posix_fadvise`). Seconds; {rounds_of(scope)}, a round "
        "being the median of some swaps; ratios are taken round by round."
    ]
    pictures = []
    for child in TITLES:
        if child in scope.children:
            figures = _measured(folder / child, child, scope)
            parts.append(text(child, figures))
            pictures += _pictures(child, figures)
    (scope.beside / CHART).write_text(bar_charts(pictures))
    parts.insert(1, f"![Seconds of a swap, by subject and model]({CHART})")
    return "\n\n".join(parts)


def _measured(folder: Path, child: str, scope: Scope) -> Figures:
    folder.mkdir()
    figures = Figures()
    options = ["--models-max", "1", "-c", "2048"]
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(corral(folder / "corral", child, *options, models=MODELS))
        swappers = [
            Swapper(Subject("Corral", running.client.port, running.key), folder / "corral/models"),
            *stack.enter_context(_others(folder, child, options)),
        ]
        commands = _commands(running)
        for number in scope.numbers:
            measured = _round(swappers, scope.swaps(SWAPS[child]) if number else 1, cold=False)
            if number:  # the first only warms up
                _note(figures.warm, measured)
            if child == "large":
                measured = _round(swappers, scope.swaps(SWAPS[child]) if number else 1, cold=True)
                starts = _starts(running, commands, folder / f"{number}")
                if number:
                    _note(figures.cold, measured)
                    figures.starts.append(starts)
            say(f"{child}: round {number} of {scope.rounds}")
    return figures


@contextlib.contextmanager
def _others(folder: Path, child: str, options: Sequence[str]) -> Iterator[list[Swapper]]:
    with (
        llama_cpp_router(folder / "router", child, *options, models=MODELS) as router,
        rivals(folder, child, MODELS) as others,
    ):
        yield [
            Swapper(router, folder / "router/models"),
            *[
                Swapper(rival, folder / f"rival-{number}/models")
                for number, rival in enumerate(others)
            ],
        ]


def _commands(running: Gateway) -> dict[str, ChildCommand]:
    found = {}
    for model in reversed(MODELS):  # the first is loaded afterwards, as with the others
        assert running.client.chat(model, max_tokens=1).status == 200
        found[model] = ChildCommand.of(running.child_of(model))
    return found


def _round(swappers: Sequence[Swapper], swaps: int, *, cold: bool) -> dict[str, float]:
    """All are asked for one model and then for the other, so that none has what is dropped."""
    taken: dict[str, list[float]] = {each.subject.name: [] for each in swappers}
    for _ in range(swaps):
        for wanted in reversed(MODELS):
            for each in swappers:
                taken[each.subject.name].append(each.swap(wanted, cold=cold))
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def _starts(
    running: Gateway, commands: dict[str, ChildCommand], folder: Path
) -> tuple[float, float]:
    """Seconds of a plain start of the model that is not loaded: cold, and warm."""
    folder.mkdir()
    (loaded,) = (child.preset for child in running.children())
    (other,) = set(MODELS) - {loaded}
    drop(running.models_dir / f"{other}.gguf")
    seconds = []
    for temperature in ("cold", "warm"):
        with Child(commands[other], folder / f"{temperature}.sock") as child:
            seconds.append(child.moments["ready"] - child.moments["started"])
    return seconds[0], seconds[1]


def drop(path: Path) -> None:
    """Its pages leave the page cache; nobody may have it open. Fails if some stay."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # what is not yet written stays
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        size = os.fstat(descriptor).st_size
        probes = [size * probe // PROBES for probe in range(PROBES)]
        kept = sum(is_cached(descriptor, at) is not False for at in probes)
        assert kept < PROBES / 20, f"{kept} of {PROBES} probed pages of {path} stay in the cache"
    finally:
        os.close(descriptor)


def _note(figures: dict[str, list[float]], measured: dict[str, float]) -> None:
    for name, seconds in measured.items():
        figures.setdefault(name, []).append(seconds)


# As text -----------------------------------------------------------------------------------------


def text(child: str, figures: Figures) -> str:
    head = ["", "Corral", *[name for name in figures.warm if name != "Corral"]]
    rows = [["warm", *[spread(figures.warm[name], ".3f") for name in figures.warm]]]
    aims = [_aim("warm", figures.warm, WARM_AIM)]
    parts = [f"### {TITLES[child]}"]
    if figures.cold:
        rows.append(["cold", *[spread(figures.cold[name], ".3f") for name in figures.cold]])
        by_start = [cold / warm for cold, warm in figures.starts]
        counts = statistics.median(by_start) >= COLD_MATTERS
        aims.append(_aim("cold", figures.cold, COLD_AIM if counts else None))
        parts.append(
            f"A plain cold start takes {spread(by_start, '.2f')} of a warm one; the aim for a cold "
            f"swap counts from {COLD_MATTERS:g} on."
        )
    return "\n\n".join([*parts, table(head, rows), table(["", "measured", "aim", ""], aims)])


def _pictures(child: str, figures: Figures) -> list[Bars]:
    known = {"warm": figures.warm, "cold": figures.cold}
    return [
        Bars(f"{TITLES[child]}, {temperature}: seconds", seconds, ".2f")
        for temperature, seconds in known.items()
        if seconds
    ]


def _aim(what: str, seconds: dict[str, list[float]], aim: float | None) -> list[str]:
    share = [ours / its for ours, its in zip(seconds["Corral"], seconds[ROUTER], strict=True)]
    name = f"{what}: Corral / {ROUTER}"
    if aim is None:
        return [name, spread(share, ".3f"), "none here", ""]
    reached = "reached" if statistics.median(share) <= aim else "not reached"
    return [name, spread(share, ".3f"), f"at most {aim:g}", reached]
