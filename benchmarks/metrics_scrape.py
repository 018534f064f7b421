"""What Prometheus costs: a look at /metrics every fifteen seconds, with few series and many."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.frame import CpuClock, Scope, rounds_of, say, spread, table
from benchmarks.subjects import corral, corral_subject
from proxy.metrics import families
from scheduler.tally import SECONDS
from tests.support.gateway import Gateway

HEADING = "A look at /metrics"
SIZES = (1, 10, 30, 100)
"""Models that have been used."""
MOST_TEAMS = 20
"""Each model by as many teams as there are models, or so many."""
EVERY_SECONDS = 15.0
MOST_PERCENT = 1.0
"""The aim: of one core, of all processes together."""
LOOKS = 10
"""In a round: a processor's time is told in hundredths of a second."""


def section(folder: Path, scope: Scope) -> str:
    rows = []
    with corral(folder / "corral", "stand-in") as running:
        pids = [pid for found in corral_subject("", running).pids.values() for pid in found]
        for size in SIZES[: scope.steps]:
            _use(running, size)
            series = _look(running)  # not counted: the first one imports the library
            taken = [_round(running, pids) for _ in range(scope.rounds)]
            cpu = [cpu for cpu, _ in taken]
            rows.append(
                [
                    f"{size} x {min(size, MOST_TEAMS)}",
                    f"{series:,}",
                    spread([seconds * 1e3 for _, seconds in taken]),
                    spread([each * 1e3 for each in cpu]),
                    spread([100 * each / EVERY_SECONDS for each in cpu], ".2f"),
                ]
            )
            say(f"{size} models")
    return (
        f"Prometheus looks every {EVERY_SECONDS:g} s. The time until the page is there, the "
        "processor's time of all of Corral's processes for it, and what that is of one core: "
        f"{rounds_of(scope)}, {LOOKS} looks each. The aim is at most {MOST_PERCENT:g} %.\n\n"
        + table(["models x teams", "series", "ms", "ms of processor", "% of a core"], rows)
    )


def _use(running: Gateway, models: int) -> None:
    """As if each team had used each model."""
    ranges = [1] * (len(SECONDS) + 1)
    for model in range(models):
        name = f"model-{model}"
        spreads = [[family, [name], ranges, 1.0] for family in families.SPREADS]
        counts = [
            [families.REQUESTS, [name, f"team-{team}", "ok"], 1.0]
            for team in range(min(models, MOST_TEAMS))
        ]
        counts += [
            [families.TOKENS, [name, f"team-{team}", kind], 1.0]
            for team in range(min(models, MOST_TEAMS))
            for kind in ("read", "cached", "answered")
        ]
        running.control("tell", tallied={"counts": counts, "spreads": spreads})


def _round(running: Gateway, pids: Sequence[int]) -> tuple[float, float]:
    """(processor seconds, seconds) of one look."""
    clock, begun = CpuClock(pids), time.perf_counter()
    for _ in range(LOOKS):
        _page(running)
    seconds = time.perf_counter() - begun
    return clock.spent() / LOOKS, seconds / LOOKS


def _look(running: Gateway) -> int:
    """The series on the page, as Prometheus' own parser counts them."""
    parsed = text_string_to_metric_families(_page(running).decode())
    return sum(len(family.samples) for family in parsed)


def _page(running: Gateway) -> bytes:
    answer = running.client.request("GET", "/metrics", key=running.admin_key)
    assert answer.status == 200, answer.body
    return answer.body
