"""How long the scheduler's core takes to decide, over models, waiters and running instances."""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.charts import Panel, line_charts
from benchmarks.crowded_planner import KINDS, SLOTS, TENANTS, WAITERS, CrowdedPlanner
from benchmarks.frame import Scope, say, table
from scheduler.collecting import OBJECTS

HEADING = "Decision time"
AIM_MICROSECONDS = 50.0
MODELS = (10, 100, 1_000, 10_000)
RUNNING = (4, 16, 64, 256)
ROOM = 8
"""Instances that run while the number of models grows."""
MANY = 1_000
"""Models while the number of instances grows."""
CHART = "decision_time.svg"
ALL = "all together, mean"

Rounds = Mapping[str, Sequence[Sequence[float]]]
"""By kind of event, and round: microseconds of each decision."""


@dataclass(frozen=True)
class Size:
    models: int
    running: int

    @property
    def waiters(self) -> int:
        """About: those who are served at the start are not among them."""
        return (self.models - self.running) * WAITERS


def section(_folder: Path, scope: Scope) -> str:
    # As the scheduler's own process does it (scheduler/collecting.py)
    gc.collect()
    gc.set_threshold(OBJECTS, 10, 10)
    by_models = [Size(models, min(ROOM, models // 2)) for models in MODELS[: scope.steps]]
    by_running = [Size(MANY, running) for running in RUNNING[: scope.steps]]
    taken = _measured([*by_models, *by_running], scope)
    chart = line_charts(
        [
            Panel("models known", [s.models for s in by_models], _medians(by_models, taken)),
            Panel(
                "instances running", [s.running for s in by_running], _medians(by_running, taken)
            ),
        ],
        "median of each kind, µs",
        aim=AIM_MICROSECONDS,
    )
    (scope.beside / CHART).write_text(chart)
    return _text(by_models, by_running, taken, scope)


def _measured(sizes: Sequence[Size], scope: Scope) -> Mapping[Size, Rounds]:
    """All sizes live for the whole time and take turns, so that a disturbance hits all of them.
    The first round only warms up and is dropped."""
    planners = {}
    for size in dict.fromkeys(sizes):
        planners[size] = CrowdedPlanner(size.models, size.running)
        say(f"{size.models:,} models, {size.running} running, {planners[size].waiters:,} wait")
    taken: dict[Size, dict[str, list[list[float]]]] = {
        size: {kind: [] for kind in KINDS} for size in planners
    }
    for number in scope.numbers:
        for size, planner in planners.items():
            planner.taken.clear()
            planner.run(scope.seconds)
            if number:
                for kind in KINDS:
                    micros = [seconds * 1e6 for seconds in planner.taken[kind]]
                    taken[size][kind].append(micros)
        say(f"round {number} of {scope.rounds}")
    return taken


# As text and as a picture ------------------------------------------------------------------------


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all values do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _medians(sizes: Sequence[Size], taken: Mapping[Size, Rounds]) -> dict[str, list[float]]:
    together = {ALL: [_per_decision(taken[size]) for size in sizes]}
    return together | {k: [_typical(taken[size][k], 0.5) for size in sizes] for k in KINDS}


def _per_decision(rounds_by_kind: Rounds) -> float:
    """The mean over all events: the median of the rounds."""
    rounds = zip(*rounds_by_kind.values(), strict=True)
    return statistics.median(
        statistics.fmean(micros for kind in kinds for micros in kind) for kinds in rounds
    )


def _typical(rounds: Sequence[Sequence[float]], share: float) -> float:
    """The median of the rounds' percentiles; not a number where no round had such an event."""
    values = [percentile(round_, share) for round_ in rounds if round_]
    return statistics.median(values) if values else math.nan


def _text(
    by_models: Sequence[Size],
    by_running: Sequence[Size],
    taken: Mapping[Size, Rounds],
    scope: Scope,
) -> str:
    first, top = by_models[0], by_models[-1]
    lowest, at_top = (_per_decision(taken[size]) for size in (first, top))
    slow = [
        f"{kind} {micros:.0f}"
        for kind, micros in ((kind, _typical(taken[top][kind], 0.5)) for kind in KINDS)
        if micros > AIM_MICROSECONDS
    ]
    within = "reached" if at_top <= AIM_MICROSECONDS else "not reached"
    allowed = math.log(top.models) / math.log(first.models)
    grows = "reached" if at_top / lowest <= allowed else "not reached"
    return "\n\n".join(
        [
            "One `planner.handle` by the kind of its event, µs of CPU: the median and, behind the "
            f"stroke, the 99th percentile, each the median of {scope.rounds} interleaved rounds of "
            f"{scope.seconds:g} s. {TENANTS} tenants of three weights and three priorities; "
            f"{WAITERS} wait for each model; every instance but one is busy on all its {SLOTS} "
            "slots.",
            f"At {top.models:,} models and {top.waiters:,} waiters a decision takes {at_top:.1f} "
            "µs, all kinds together as often as they come; the aim is "
            f"{AIM_MICROSECONDS:g} µs: {within}.",
            f"Medians above it: {', '.join(slow)}." if slow else "No kind's median is above it.",
            f"From {first.models} to {top.models:,} models it grows {at_top / lowest:.2f}-fold, "
            f"the logarithm {allowed:.2f}-fold: {grows}.",
            f"![Decision time over models and over running instances]({CHART})",
            f"Over the models that are known, {ROOM} instances running (5 of 10):",
            _table(
                [f"{s.models:,} models, {s.waiters:,} wait" for s in by_models], by_models, taken
            ),
            f"Over the instances that run, with {MANY:,} models:",
            _table([f"{s.running} running" for s in by_running], by_running, taken),
        ]
    )


def _table(heads: Sequence[str], sizes: Sequence[Size], taken: Mapping[Size, Rounds]) -> str:
    rows = [[ALL, *[f"{_per_decision(taken[size]):.1f}" for size in sizes]]]
    for kind in KINDS:
        cells = []
        for size in sizes:
            middle, tail = (_typical(taken[size][kind], share) for share in (0.5, 0.99))
            cells.append("none" if math.isnan(middle) else f"{middle:.1f} / {tail:.1f}")
        rows.append([kind, *cells])
    return table(["", *heads], rows)
