"""What the engine's options make of a start: until it is ready, and until it has answered."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.frame import Scope, rounds_of, say, spread, table
from benchmarks.rival_swaps import drop
from benchmarks.subjects import ChildCommand, corral, place_models
from benchmarks.swap_time import Child, first_token

HEADING = "Options of a start"
AS_IT_IS = "as Corral starts it"
OPTIONS: dict[str, Sequence[str]] = {
    AS_IT_IS: (),
    "no warm-up": ("--no-warmup",),
    "read, not mapped": ("--load-mode", "none"),
    "read past the page cache": ("--load-mode", "dio"),
    "weights as they are in the file": ("--no-repack",),
}
TITLES = {
    "smollm2": "SmolLM2-135M-Instruct, Q4_1 (repacked for the processor as it is loaded)",
    "large": "SmolLM2-135M-Instruct, F32 (513 MiB)",
}

Taken = tuple[float, float]
"""Seconds from the start until it is ready, and until the first event of its first answer."""


def section(folder: Path, scope: Scope) -> str:
    parts = [
        "A child by itself, with the command line that Corral gives it and one option more. "
        "*Cold*: its file was dropped from the page cache before. Seconds from the start of the "
        f"process; {rounds_of(scope)}; shares are those of the same round's start {AS_IT_IS!r}."
    ]
    for child in TITLES:
        if child in scope.children:
            parts.append(_with(folder / child, child, scope))
    return "\n\n".join(parts)


def _with(folder: Path, child: str, scope: Scope) -> str:
    folder.mkdir()
    with corral(folder / "corral", child, "-c", "2048") as running:
        command = ChildCommand.of(running.child_of("alpha"))
    place_models(folder / "models", child, ("alpha",))
    model = folder / "models" / "alpha.gguf"
    temperatures = ("warm", "cold") if child == "large" else ("warm",)
    taken: dict[tuple[str, str], list[Taken]] = {}
    sockets = itertools.count()
    for number in scope.numbers:
        for temperature in temperatures:
            for name, more in OPTIONS.items():
                if temperature == "cold":
                    drop(model)
                address = folder / f"{next(sockets)}.sock"
                seconds = _start(_changed(command, model, more), address)
                if number:  # the first only warms up
                    taken.setdefault((name, temperature), []).append(seconds)
        say(f"{child}: round {number} of {scope.rounds}")
    return "\n\n".join([f"### {TITLES[child]}", *[_text(taken, each) for each in temperatures]])


def _changed(command: ChildCommand, model: Path, more: Sequence[str]) -> ChildCommand:
    argv = list(command.argv)
    argv[argv.index("--model") + 1] = str(model)
    return replace(command, argv=(*argv, *more))


def _start(command: ChildCommand, address: Path) -> Taken:
    with Child(command, address) as child, socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(address))
        answered = first_token(connection, "alpha", "")
        begun = child.moments["started"]
        return child.moments["ready"] - begun, answered - begun


def _text(taken: dict[tuple[str, str], list[Taken]], temperature: str) -> str:
    own = taken[AS_IT_IS, temperature]
    rows = []
    for name in OPTIONS:
        figures = taken[name, temperature]
        share = [a[1] / b[1] for a, b in zip(figures, own, strict=True)]
        rows.append(
            [
                name,
                spread([ready for ready, _ in figures], ".3f"),
                spread([answered for _, answered in figures], ".3f"),
                spread(share, ".2f"),
            ]
        )
    return table([temperature, "ready", "first event", "share"], rows)
