"""What Corral costs between a client and a child: against the child, and a bare pass-through."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.frame import Sample, Samples, Scope, Subject, measured, rounds_of, spread, table
from benchmarks.load import Load
from benchmarks.subjects import (
    ChildCommand,
    bare_pass_through,
    child_itself,
    corral,
    corral_subject,
)

HEADING = "Proxy overhead"
AIMS = {"stand-in": 0.65, "tiny": 0.9}
"""Corral's answers a second with 32 clients, as a share of the bare pass-through's."""
SLOTS = {"stand-in": 64, "tiny": 32}
EVENTS = {"stand-in": 64, "tiny": 32}
TITLES = {
    "stand-in": "A fake upstream that costs next to nothing",
    "tiny": "llama-server with a tiny model",
}
ONE, MANY = "1 client", "32 clients"


def section(folder: Path, scope: Scope) -> str:
    parts = [
        f"{rounds_of(scope).capitalize()} of {scope.seconds:g} s. Corral under uvicorn with its "
        "default settings, one web process; ratios are taken round by round. The load, what is "
        "measured and the child share the machine.",
        _generator(scope),
    ]
    for child in TITLES:
        if child in scope.children:
            parts.append(_with(folder, child, scope))
    return "\n\n".join(parts)


def loads(child: str) -> list[Load]:
    """One token; or a stream of as many as the child's answers have."""
    streams = f"{EVENTS[child]}-token streams"
    return [
        Load(ONE, 1, stream=False),
        Load(MANY, 32, stream=False),
        Load(f"{ONE}, {streams}", 1, stream=True, tokens=EVENTS[child]),
        Load(f"{MANY}, {streams}", 32, stream=True, tokens=EVENTS[child]),
    ]


def _with(folder: Path, child: str, scope: Scope) -> str:
    slots = str(SLOTS[child])
    options = ["--parallel", slots, "-c", str(SLOTS[child] * 256)]
    with corral(folder / child, child, *options) as running:
        command = ChildCommand.of(running.child_of("alpha"))
        with (
            child_itself(command, fresh_streams=child != "stand-in") as direct,
            bare_pass_through(command, folder / child) as bare,
        ):
            subjects = [direct, bare, corral_subject("Corral", running)]
            samples = measured(subjects, loads(child), scope)
    return _text(child, samples, subjects)


def _text(child: str, samples: Samples, subjects: Sequence[Subject]) -> str:
    direct, bare, ours = (subject.name for subject in subjects)
    names = [load.name for load in loads(child)]
    single = [load.name for load in loads(child) if load.clients == 1]
    many = [load.name for load in loads(child) if load.clients > 1]
    share = ratios(samples, ours, bare, MANY)
    reached = "reached" if statistics.median(share) >= AIMS[child] else "not reached"
    return "\n\n".join(
        [
            f"### {TITLES[child]} ({SLOTS[child]} slots)",
            f"With 32 clients Corral gives {spread(share, '.2f')} of the bare pass-through's "
            f"answers; the aim is {AIMS[child]:g}: {reached}.",
            "Whole answers a second:",
            table(
                ["", *names],
                [
                    *[[s.name, *_row(samples, s.name, names, _rate)] for s in subjects],
                    _ratio_row("Corral / bare", samples, ours, bare, names),
                    _ratio_row("Corral / direct", samples, ours, direct, names),
                ],
            ),
            "First byte of the answer's body after the request, ms:",
            table(
                ["", *single],
                [
                    *[
                        [s.name, *_row(samples, s.name, single, _first_byte, ".2f")]
                        for s in subjects
                    ],
                    ["added by bare", *_added(samples, bare, direct, single)],
                    ["added by Corral", *_added(samples, ours, direct, single)],
                ],
            ),
            "µs of CPU an answer, user and system:",
            table(["", *many], _cpu_rows(samples, subjects, many)),
        ]
    )


def _rate(sample: Sample) -> float:
    return sample.outcome.per_second


def _first_byte(sample: Sample) -> float:
    assert sample.outcome.first_byte_ms is not None
    return sample.outcome.first_byte_ms


def _row(
    samples: Samples,
    subject: str,
    names: Sequence[str],
    of: Callable[[Sample], float],
    form: str = ",.0f",
) -> list[str]:
    return [spread([of(sample) for sample in samples[subject, name]], form) for name in names]


def ratios(samples: Samples, ours: str, other: str, load: str) -> list[float]:
    pairs = zip(samples[ours, load], samples[other, load], strict=True)
    return [_rate(a) / _rate(b) for a, b in pairs]


def _ratio_row(
    title: str, samples: Samples, ours: str, other: str, names: Sequence[str]
) -> list[str]:
    return [title, *[spread(ratios(samples, ours, other, name), ".2f") for name in names]]


def _added(samples: Samples, ours: str, direct: str, names: Sequence[str]) -> list[str]:
    cells = []
    for name in names:
        pairs = zip(samples[ours, name], samples[direct, name], strict=True)
        cells.append(spread([_first_byte(a) - _first_byte(b) for a, b in pairs], "+.2f"))
    return cells


def _cpu_rows(
    samples: Samples, subjects: Sequence[Subject], names: Sequence[str]
) -> list[list[str]]:
    rows = []
    for subject in subjects:
        for role in (*subject.pids, "load"):
            cells = [spread([s.cpu[role] for s in samples[subject.name, name]]) for name in names]
            rows.append([f"{subject.name}: {role}", *cells])
    return rows


def _generator(scope: Scope) -> str:
    with_wrk = shutil.which("wrk") is not None and scope.seconds >= 1
    whole = "wrk" if with_wrk else "our own generator"
    return (
        f"The load: {whole} for whole answers to 32 clients, our own generator for the rest. It is "
        "not what is measured: see how much more of the fake upstream itself it gets."
    )
