"""Figures as people read them: one table for a trace, a row for a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from .figures import EstimateError, Figures
from .workload import Trace

HEADINGS = (
    "policy", "served", "refused", "gave up", "p50", "p95", "p99", "worst", "loads", "evicted",
    "Jain", "busy",
)  # fmt: skip


def row(policy: str, figures: Figures) -> tuple[str, ...]:
    """Who still waited when the trace ended marks the worst wait as one without an end."""
    endless = "and more" if figures.still_waiting else ""
    return (
        policy,
        f"{figures.served:,}",
        f"{sum(figures.refused.values()):,}",
        f"{figures.gave_up + figures.timed_out:,}",
        f"{figures.p50:,.1f} s",
        f"{figures.p95:,.1f} s",
        f"{figures.p99:,.1f} s",
        f"{figures.worst:,.0f} s {endless}".strip(),
        f"{figures.loads:,}",
        f"{figures.evictions:,}",
        f"{figures.jain:.3f}",
        f"{figures.busy_share:.0%}",
    )


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, all others to the right."""
    table = [HEADINGS, *rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    )


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["--:"] * (len(HEADINGS) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [HEADINGS, rule, *rows])


def details(policy: str, figures: Figures) -> str:
    """What has no column: refusals by code, instances that died, estimates."""
    said = []
    if figures.refused:
        codes = ", ".join(f"{code} {number:,}" for code, number in figures.refused.items())
        said.append(f"refused: {codes}")
    for what, number in (
        ("still waiting at the end", figures.still_waiting),
        ("cut by a death", figures.cut),
        ("failed loads", figures.failed_loads),
    ):
        if number:
            said.append(f"{what}: {number:,}")
    if len(figures.p95_of) > 1:
        teams = ", ".join(f"{team} {p95:,.1f} s" for team, p95 in figures.p95_of.items())
        said.append(f"p95 by team: {teams}")
    if figures.estimates:
        said.append(estimates_text(figures.estimates))
    return f"{policy}: {'; '.join(said)}" if said else ""


def estimates_text(error: EstimateError) -> str:
    return (
        f"estimates: {error.asked:,} asked, over the wait that came {error.ratio_median:.2f} "
        f"(median) and {error.ratio_p95:.2f} (p95), wrong by {error.error_median:.1f} s (median) "
        f"and {error.error_p95:.1f} s (p95)"
    )


def as_json(trace: Trace, results: Mapping[str, Figures]) -> dict[str, object]:
    return {
        "trace": trace.name,
        "about": trace.about,
        "places": trace.places,
        "models": len(trace.models),
        "seed": trace.seed,
        "policies": {policy: asdict(figures) for policy, figures in results.items()},
    }


def shortfalls(
    results: Mapping[str, Figures], ours: str, rivals: Iterable[str]
) -> list[tuple[str, str, float, float]]:
    """Where a rival is better in p95 wait or loads: (rival, figure, ours, theirs)."""
    mine = results[ours]
    found = []
    for rival in rivals:
        theirs = results[rival]
        for figure in ("p95", "loads"):
            own, other = getattr(mine, figure), getattr(theirs, figure)
            if own > other:
                found.append((rival, figure, own, other))
    return found
