"""What came of a simulation: counts, waits, fairness."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil

from scheduler.core.values import PresetName, TenantId

from .workload import SimulatedTenant


@dataclass(frozen=True, slots=True)
class EstimateError:
    """Corral's estimate, asked when the request arrived, against what then came. `ratio` is
    estimate over wait; the absolute error is in seconds."""

    asked: int
    ratio_median: float
    ratio_p95: float
    error_median: float
    error_p95: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Waits are seconds from the arrival until the answer began in a slot. Who gave up, was refused
    after waiting, or still waits at the end counts with what it waited until then; who was refused
    at the door did not wait."""

    asked: int
    served: int
    refused: dict[str, int]  # by code
    gave_up: int  # left before the answer began
    timed_out: int  # left before it was whole
    cut: int  # its instance died under it
    still_waiting: int  # when the trace ended
    p50: float
    p95: float
    p99: float
    worst: float
    worst_of: dict[PresetName, float]
    p95_of: dict[TenantId, float]
    loads: int
    failed_loads: int
    evictions: int
    jain: float
    busy_share: float
    seconds: float  # of virtual time
    estimates: EstimateError | None = None


class Tally:
    """Counts while a simulation runs."""

    __slots__ = (
        "asked", "busy_seconds", "cut", "estimates", "evictions", "failed_loads", "gave_up",
        "loads", "refused", "served", "still_waiting", "timed_out", "tokens", "waits", "worst_of",
    )  # fmt: skip

    def __init__(self, tenants: int) -> None:
        self.waits = [array("d") for _ in range(tenants)]  # by tenant
        self.worst_of: dict[PresetName, float] = {}
        self.refused: Counter[str] = Counter()
        self.tokens = [0] * tenants
        self.estimates: list[tuple[float, float]] = []  # estimated, then waited
        self.asked = self.served = self.gave_up = self.timed_out = self.cut = 0
        self.loads = self.failed_loads = self.evictions = self.still_waiting = 0
        self.busy_seconds = 0.0

    def waited(self, preset: PresetName, tenant: int, seconds: float) -> None:
        self.waits[tenant].append(seconds)
        if seconds > self.worst_of.get(preset, -1.0):
            self.worst_of[preset] = seconds

    def figures(self, tenants: Sequence[SimulatedTenant], places: int, seconds: float) -> Figures:
        waits = sorted(chain.from_iterable(self.waits))
        room = max(1, places) * seconds
        shares = [tokens / who.weight for tokens, who in zip(self.tokens, tenants, strict=True)]
        return Figures(
            asked=self.asked,
            served=self.served,
            refused=dict(sorted(self.refused.items())),
            gave_up=self.gave_up,
            timed_out=self.timed_out,
            cut=self.cut,
            still_waiting=self.still_waiting,
            p50=quantile(waits, 0.50),
            p95=quantile(waits, 0.95),
            p99=quantile(waits, 0.99),
            worst=waits[-1] if waits else 0.0,
            worst_of=dict(self.worst_of),
            p95_of={
                who.name: quantile(sorted(waits), 0.95)
                for who, waits in zip(tenants, self.waits, strict=True)
            },
            loads=self.loads,
            failed_loads=self.failed_loads,
            evictions=self.evictions,
            jain=jain(shares),
            busy_share=self.busy_seconds / room if room else 0.0,
            seconds=seconds,
            estimates=estimate_error(self.estimates),
        )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed; 0 of none."""
    if not ordered:
        return 0.0
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def jain(shares: Sequence[float]) -> float:
    """Jain's index: 1 when all have the same, 1/n when one has all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def estimate_error(estimates: Sequence[tuple[float, float]]) -> EstimateError | None:
    if not estimates:
        return None
    ratios = sorted(estimated / waited for estimated, waited in estimates if waited > 0)
    errors = sorted(abs(estimated - waited) for estimated, waited in estimates)
    return EstimateError(
        asked=len(estimates),
        ratio_median=quantile(ratios, 0.5),
        ratio_p95=quantile(ratios, 0.95),
        error_median=quantile(errors, 0.5),
        error_p95=quantile(errors, 0.95),
    )
