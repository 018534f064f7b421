"""Policies side by side on the same traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from scheduler.core.values import Config

from .figures import Figures
from .policies import RIVALS, make_policy
from .simulation import Simulation
from .tables import details, markdown_table, row, shortfalls
from .traces import TRACES, Wish
from .workload import Trace

OURS = "corral"
SAMPLE_EVERY = 20
"""Of so many requests, one is estimated when it arrives."""

MIXED = ("mixed", "mixed-few", "mixed-crowded")
"""Those on which the default policy has to be at least as good as every rival."""
OTHERS = (
    "poisson", "bursts", "diurnal", "zipf", "conversations", "mixed-classes", "impatient", "faulty",
    "never-idle", "never-idle-many", "unequal-tenants",
)  # fmt: skip
MEMORY = ("memory", "memory-many", "memory-flat")
LRU = "corral-lru"


@dataclass(frozen=True, slots=True)
class Result:
    trace: Trace
    figures: dict[str, Figures]  # by policy


def compare(
    trace: Trace, policies: Iterable[str], config: Config, *, sample_every: int = SAMPLE_EVERY
) -> Result:
    return Result(
        trace,
        {
            name: Simulation(
                make_policy(name, trace, config), trace, sample_estimates=sample_every
            ).run()
            for name in policies
        },
    )


def all_for_the_document(config: Config, seed: int) -> Iterator[Result]:
    for name in (*MIXED, *OTHERS):
        yield compare(TRACES[name](Wish(seed=seed)), (OURS, LRU, *RIVALS), config)
    for name in MEMORY:
        yield compare(TRACES[name](Wish(seed=seed)), (OURS, LRU, "llamacpp-router"), config)


def document(results: Sequence[Result], seed: int) -> str:
    """The measured part of docs/scheduling.md."""
    parts = [
        f"Seed {seed}. Times are seconds of virtual time; *and more*: somebody still waited "
        "when the trace ended.",
        _verdict([result for result in results if result.trace.name in MIXED]),
    ]
    return "\n\n".join(parts + [_section(result) for result in results])


def _section(result: Result) -> str:
    rows = [row(policy, figures) for policy, figures in result.figures.items()]
    said = [details(policy, figures) for policy, figures in result.figures.items()]
    lines = [f"- {line}" for line in said if line]
    return "\n\n".join(
        [
            f"### `{result.trace.name}`",
            result.trace.about[0].upper() + result.trace.about[1:] + ".",
            markdown_table(rows),
            *(["\n".join(lines)] if lines else []),
        ]
    )


def _verdict(mixed: Sequence[Result]) -> str:
    """Where a rival is better than the default policy on a mixed trace, or that none is."""
    worse = [
        f"- `{result.trace.name}`, {figure}: {ours:,.1f} against {theirs:,.1f} of {rival}"
        for result in mixed
        for rival, figure, ours, theirs in shortfalls(result.figures, OURS, RIVALS)
    ]
    names = ", ".join(f"`{result.trace.name}`" for result in mixed)
    if not worse:
        return f"On {names} no rival is better than the default policy in p95 wait or in loads."
    heading = f"Of {names}, these are where a rival is better than the default policy here:"
    return "\n".join([heading, "", *worse])
