"""uvicorn or daphne: what Corral's front costs on either, against the least possible."""

from __future__ import annotations

import contextlib
from pathlib import Path

from benchmarks.frame import Samples, Scope, measured, rounds_of, spread, table
from benchmarks.load import Load
from benchmarks.subjects import (
    ChildCommand,
    bare_pass_through,
    child_itself,
    corral,
    corral_subject,
)

HEADING = "ASGI server"
LOADS = [
    Load("1 client", 1, stream=False),
    Load("32 clients", 32, stream=False),
    Load("32 clients, 64-event streams", 32, stream=True),
]


def section(folder: Path, scope: Scope) -> str:
    with contextlib.ExitStack() as stack:
        gateways = {
            server: stack.enter_context(
                corral(folder / server, "stand-in", "--parallel", "64", server=server)
            )
            for server in ("uvicorn", "daphne")
        }
        command = ChildCommand.of(gateways["uvicorn"].child_of("alpha"))
        subjects = [
            stack.enter_context(child_itself(command, fresh_streams=False)),
            stack.enter_context(bare_pass_through(command, folder)),
            *[corral_subject(f"Corral, {name}", running) for name, running in gateways.items()],
        ]
        samples = measured(subjects, LOADS, scope)
        return _text(samples, [subject.name for subject in subjects], scope)


def _text(samples: Samples, subjects: list[str], scope: Scope) -> str:
    names = [load.name for load in LOADS]
    rows = [
        [subject, *[spread([s.outcome.per_second for s in samples[subject, n]]) for n in names]]
        for subject in subjects
    ]
    return "\n\n".join(
        [
            f"Whole answers a second with the fake upstream: {rounds_of(scope)} of "
            f"{scope.seconds:g} s.",
            table(["", *names], rows),
            "Load, subject and upstream share the machine; events of a stream that come close "
            "together travel on as one write, so a proxy may pass more streams than it is asked "
            "to.",
        ]
    )
