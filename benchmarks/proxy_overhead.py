"""What Corral costs between a client and a child: against the child itself, a bare pass-through and
llama.cpp's own router, in one run."""

from __future__ import annotations

import contextlib
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.charts import Bars, bar_charts
from benchmarks.frame import Sample, Samples, Scope, Subject, measured, rounds_of, spread, table
from benchmarks.load import Load
from benchmarks.rivals import rivals
from benchmarks.subjects import (
    ChildCommand,
    bare_pass_through,
    child_itself,
    corral,
    corral_subject,
    llama_cpp_router,
)

HEADING = "Proxy overhead"
AIMS = {"stand-in": (0.65, 0.7), "tiny": (0.9, 0.95)}
"""Corral's answers a second with 32 clients, as a share of the bare pass-through's: what was aimed
at first, and now."""
ADDED_AIM = 0.5
"""What Corral adds to one client's first byte of a real child, as a share of the router's."""
PACED_AIM = 1.02
"""The time of a paced stream through Corral, as a share of the child's own."""
LATE_AIM_MS = 50
"""Of 100 tokens of paced streams the latest but one may come so much after its time."""
SLOTS = {"stand-in": 256, "tiny": 32}
CONTEXT = 128
"""Tokens of each slot."""
EVENTS = {"stand-in": 64, "tiny": 32}
TITLES = {
    "stand-in": "A fake upstream that costs next to nothing",
    "tiny": "llama-server with a tiny model",
}
ONE, MANY, PACED = "1 client", "32 clients", "200 paced streams"
PACE_MS = 20
CHART = "proxy_overhead.svg"
DIRECT, BARE, ROUTER = "the child itself", "bare pass-through, uvicorn", "llama.cpp's router"
UVICORN, DAPHNE = "Corral", "Corral, daphne"
TWO = "Corral, 2 web processes"


def section(folder: Path, scope: Scope) -> str:
    parts = [
        f"{rounds_of(scope).capitalize()} of {scope.seconds:g} s. Corral with its default "
        "settings, one web process, under uvicorn unless it says daphne; ratios are taken round by "
        "round. The load, what is measured and the child share the machine.",
        _generator(scope),
        "llama.cpp's router is the same binary as the child, started without a model and with a "
        "thread for each client. Its fake upstream was put in the place of its program after its "
        "start.",
    ]
    pictures = []
    for child in TITLES:
        if child in scope.children:
            said, bars = _with(folder / child, child, scope)
            parts.append(said)
            pictures += bars
    (scope.beside / CHART).write_text(bar_charts(pictures))
    parts.append(f"![Answers a second and first bytes, by subject]({CHART})")
    return "\n\n".join(parts)


def loads(child: str, scope: Scope) -> list[Load]:
    """One token; or a stream of as many as the child's answers have; or, where the child can be
    told when to say something, 200 streams at the pace of a fast model."""
    streams = f"{EVENTS[child]}-token streams"
    asked = [
        Load(ONE, 1, stream=False),
        Load(MANY, 32, stream=False),
        Load(f"{ONE}, {streams}", 1, stream=True, tokens=EVENTS[child]),
        Load(f"{MANY}, {streams}", 32, stream=True, tokens=EVENTS[child]),
    ]
    if child == "stand-in":
        tokens = round(2 * scope.seconds * 1000 / PACE_MS)
        asked.append(Load(PACED, 200, stream=True, tokens=tokens, pace_ms=PACE_MS))
    return asked


def _with(folder: Path, child: str, scope: Scope) -> tuple[str, list[Bars]]:
    folder.mkdir()
    with _subjects(folder, child) as subjects:
        samples = measured(subjects, loads(child, scope), scope)
    names = [subject.name for subject in subjects]
    return _text(child, samples, subjects, loads(child, scope)), _pictures(child, samples, names)


@contextlib.contextmanager
def _subjects(folder: Path, child: str) -> Iterator[list[Subject]]:
    options = ["--parallel", str(SLOTS[child]), "-c", str(SLOTS[child] * CONTEXT)]
    with contextlib.ExitStack() as stack:
        under = {
            name: stack.enter_context(corral(folder / server, child, *options, server=server))
            for name, server in ((UVICORN, "uvicorn"), (DAPHNE, "daphne"))
        }
        workers = ("--web-workers", "2")
        under[TWO] = stack.enter_context(corral(folder / "two", child, *options, *workers))
        command = ChildCommand.of(under[UVICORN].child_of("alpha"))
        fresh = child != "stand-in"
        yield [
            stack.enter_context(child_itself(command, fresh_streams=fresh)),
            stack.enter_context(bare_pass_through(command, folder)),
            stack.enter_context(llama_cpp_router(folder / "router", child, *options)),
            *(stack.enter_context(rivals(folder, child)) if child != "stand-in" else []),
            *[corral_subject(name, running) for name, running in under.items()],
        ]


# Figures ---------------------------------------------------------------------------------------


def _rate(sample: Sample) -> float:
    return sample.outcome.per_second


def _first_byte(sample: Sample) -> float:
    assert sample.outcome.first_byte_ms is not None
    return sample.outcome.first_byte_ms


def _whole(sample: Sample) -> float:
    assert sample.outcome.answer_ms is not None
    return sample.outcome.answer_ms


def _late(sample: Sample) -> float:
    assert sample.outcome.late_ms is not None
    return sample.outcome.late_ms


def _slowest(sample: Sample) -> float:
    assert sample.outcome.slowest_ms is not None
    return sample.outcome.slowest_ms


Figure = Callable[[Sample], float]


def ratios(
    samples: Samples, ours: str, other: str, load: str, figure: Figure = _rate
) -> list[float]:
    pairs = zip(samples[ours, load], samples[other, load], strict=True)
    return [figure(a) / figure(b) for a, b in pairs]


# Text ------------------------------------------------------------------------------------------


def _text(child: str, samples: Samples, subjects: Sequence[Subject], asked: Sequence[Load]) -> str:
    paced = [load.name for load in asked if load.pace_ms]
    names = [load.name for load in asked if not load.pace_ms]
    single = [load.name for load in asked if load.clients == 1]
    many = [load.name for load in asked if load.clients > 1]
    parts = [
        f"### {TITLES[child]} ({SLOTS[child]} slots)",
        table(["", "measured", "aim", ""], _aims(child, samples, single, paced)),
        "Whole answers a second:",
        table(
            ["", *names],
            [
                *[[s.name, *_row(samples, s.name, names, _rate)] for s in subjects],
                *[
                    [f"{ours} / {title}", *_ratios(samples, ours, other, names)]
                    for ours in (UVICORN, DAPHNE, TWO)
                    for title, other in (("bare", BARE), ("direct", DIRECT), ("router", ROUTER))
                ],
            ],
        ),
        "First byte of the answer's body after the request, ms:",
        table(
            ["", *single],
            [
                *[[s.name, *_row(samples, s.name, single, _first_byte, ".2f")] for s in subjects],
                *[
                    [f"added by {s.name}", *_added(samples, s.name, single)]
                    for s in subjects
                    if s.name != DIRECT
                ],
            ],
        ),
        "µs of CPU an answer, user and system:",
        table(["", *many], _cpu_rows(samples, subjects, many)),
    ]
    return "\n\n".join(
        [*parts, *[_paced(samples, subjects, load) for load in asked if load.pace_ms]]
    )


def _pictures(child: str, samples: Samples, names: Sequence[str]) -> list[Bars]:
    """Without the fake upstream by itself, beside which the others could not be seen."""
    shown = [name for name in names if child != "stand-in" or name != DIRECT]
    rates = {name: [_rate(sample) for sample in samples[name, MANY]] for name in shown}
    first = {name: [_first_byte(sample) for sample in samples[name, ONE]] for name in names}
    return [
        Bars(f"{TITLES[child]}: whole answers a second, {MANY}", rates),
        Bars(f"{TITLES[child]}: first byte, {ONE}, ms", first, ".2f"),
    ]


def _aims(
    child: str, samples: Samples, single: Sequence[str], paced: Sequence[str]
) -> list[list[str]]:
    of_bare = ratios(samples, UVICORN, BARE, MANY)
    of_router = ratios(samples, UVICORN, ROUTER, MANY)
    rows = [
        *[_aim("answers a second of 32 clients / bare", of_bare, aim) for aim in AIMS[child]],
        _aim("answers a second of 32 clients / router", of_router, 1),
    ]
    for load in single:
        figures = ratios(samples, UVICORN, ROUTER, load, _first_byte)
        rows.append(_aim(f"first byte, {load} / router", figures, 1, at_most=True))
    if child != "stand-in":
        shares = _shares_added(samples)
        rows.append(
            _aim(f"added to the first byte, {ONE} / router", shares, ADDED_AIM, at_most=True)
        )
    for load in paced:
        late = [_late(sample) for sample in samples[UVICORN, load]]
        rows.append(_aim(f"ms late, a token of {load} (p99)", late, LATE_AIM_MS, at_most=True))
        for other, aim in ((DIRECT, PACED_AIM), (ROUTER, 1.0)):
            figures = ratios(samples, UVICORN, other, load, _whole)
            rows.append(_aim(f"time of {load} / {other}", figures, aim, at_most=True))
    return rows


def _aim(what: str, figures: Sequence[float], aim: float, *, at_most: bool = False) -> list[str]:
    middle = statistics.median(figures)
    reached = middle <= aim if at_most else middle >= aim
    wanted = f"at {'most' if at_most else 'least'} {aim:g}"
    return [what, spread(figures, ".3f"), wanted, "reached" if reached else "not reached"]


def _row(
    samples: Samples, subject: str, names: Sequence[str], of: Figure, form: str = ",.0f"
) -> list[str]:
    return [spread([of(sample) for sample in samples[subject, name]], form) for name in names]


def _ratios(samples: Samples, ours: str, other: str, names: Sequence[str]) -> list[str]:
    return [spread(ratios(samples, ours, other, name), ".2f") for name in names]


def _added(samples: Samples, ours: str, names: Sequence[str]) -> list[str]:
    cells = []
    for name in names:
        pairs = zip(samples[ours, name], samples[DIRECT, name], strict=True)
        cells.append(spread([_first_byte(a) - _first_byte(b) for a, b in pairs], "+.2f"))
    return cells


def _shares_added(samples: Samples) -> list[float]:
    """Of what the router adds to the first byte of one client. A round in which the router came
    before the child itself tells nothing."""
    rounds = zip(*[samples[name, ONE] for name in (UVICORN, ROUTER, DIRECT)], strict=True)
    figures = [[_first_byte(sample) for sample in each] for each in rounds]
    shares = [(ours - own) / (router - own) for ours, router, own in figures if router > own]
    return shares or [float("nan")]


def _paced(samples: Samples, subjects: Sequence[Subject], load: Load) -> str:
    rows = []
    for subject in subjects:
        figures = samples[subject.name, load.name]
        rows.append(
            [
                subject.name,
                spread([_first_byte(s) for s in figures], ".1f"),
                spread([_whole(s) for s in figures], ",.0f"),
                spread([_slowest(s) for s in figures], ",.0f"),
                spread([_late(s) for s in figures], ",.1f"),
                spread([_whole(s) / (load.tokens * load.pace_ms) for s in figures], ".3f"),
            ]
        )
    return (
        f"{load.clients} streams at once of {load.tokens} tokens, one every {load.pace_ms} ms, "
        "ms:\n\n"
        + table(
            [
                "",
                "first byte",
                "whole stream",
                "slowest stream",
                "a token late, p99",
                "of the ideal time",
            ],
            rows,
        )
    )


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
        f"The load: {whole} for whole answers to 32 clients; our own generator for the rest, and "
        "for the router, which closes each connection after its answer. It is not what is "
        "measured: see how much more of the fake upstream itself it gets."
    )
