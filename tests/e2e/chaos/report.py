"""What is left of the storm: figures, and every rule that was broken."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.frame import table

from .crowd import CLIENTS, KEYS_UNKNOWN, Fate, Outcome
from .rules import Life
from .stage import MODELS_MAX, PRESETS, TENANTS
from .storm import Storm
from .watch import Memory, Watch

CUT_GRACE_SECONDS = 1.0
GROWTH_MIB = 12.0
"""What the scheduler may gain after its warm-up; a leak of 1 kB a request passes it in an hour."""


@dataclass
class Report:
    seed: int
    seconds: float
    outcomes: Sequence[Outcome]
    storm: Storm
    watch: Watch
    recovered: Mapping[str, float]
    ends: Mapping[str, int]
    """How instances ended, from the record: by reason."""
    lives: list[Life] = field(default_factory=list)
    """Each scheduler's, from its event log."""
    replays: list[str] = field(default_factory=list)
    """Where a replay of a life differs from it."""
    violations: list[str] = field(default_factory=list)

    def judge(self) -> None:
        """Collects every broken rule."""
        for outcome in self.outcomes:
            if outcome.fate in (Fate.WRONG, Fate.SILENT) or not self._may_end_so(outcome):
                self.violations.append(str(outcome))
        self.violations += [f"an orphan: {orphan}" for orphan in self.watch.orphans]
        if self.watch.most_children > MODELS_MAX:
            self.violations.append(f"{self.watch.most_children} children at once")
        self.violations += [
            f"{life.path.name}: {rule}" for life in self.lives for rule in life.broken
        ]
        self.violations += [f"a replay differs: {difference}" for difference in self.replays]
        self.violations += [f"not replaced: {process}" for process in self.storm.unnoticed]
        self.violations += [f"said: {line}" for line in self.tracebacks()]
        growth = self.oldest.growth
        if growth > GROWTH_MIB:
            self.violations.append(f"the scheduler has grown by {growth:.1f} MiB")

    def tracebacks(self) -> list[str]:
        """What was not foreseen, in the words of the processes."""
        said = self.storm.stage.gateway.output
        at = [number for number, line in enumerate(said) if "Traceback (most" in line]
        return ["\n".join(said[max(0, number - 2) : number + 25]) for number in at[:20]]

    @property
    def oldest(self) -> Memory:
        """The scheduler that lived longest."""
        return max(self.watch.schedulers, key=lambda life: life.seconds)

    def _may_end_so(self, outcome: Outcome) -> bool:
        """A connection breaks with its web process, and with nothing else; and one that has just
        begun, or stood still, may be too slow to look a key up."""
        by_its_process = outcome.fate is Fate.CUT or outcome.detail == KEYS_UNKNOWN
        return not by_its_process or any(
            outcome.began <= until and outcome.ended >= since - CUT_GRACE_SECONDS
            for since, until in self.storm.web_hit
        )

    def figures(self) -> dict[str, object]:
        fates = Counter(outcome.fate for outcome in self.outcomes)
        whole = Counter(o.preset for o in self.outcomes if o.fate is Fate.WHOLE)
        told = Counter(
            outcome.detail
            for outcome in self.outcomes
            if outcome.fate in (Fate.REFUSED, Fate.BROKEN_OFF)
        )
        waits = sorted(o.ended - o.began for o in self.outcomes if o.fate is not Fate.LEFT)
        oldest = self.oldest
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "requests": len(self.outcomes),
            "fates": dict(fates),
            "whole answers": dict(whole),
            "errors": dict(told.most_common()),
            "longest, seconds": round(waits[-1], 1) if waits else None,
            "faults": dict(self.storm.faults.most_common()),
            "children started": len(self.watch.children_seen),
            "most children at once": self.watch.most_children,
            "looks at the kernel": self.watch.looks,
            "instances ended by": dict(self.ends),
            "schedulers": len(self.watch.schedulers),
            "oldest scheduler, seconds": round(oldest.seconds),
            "its memory, MiB": [round(size, 1) for size in _few(oldest.after_warm_up()[1])],
            "its growth after warm-up, MiB": round(oldest.growth, 2),
            "its slope, MiB an hour": round(oldest.slope, 2),
            "answers again after, seconds": {p: round(s, 1) for p, s in self.recovered.items()},
            "lives in the event log": len(self.lives),
            "steps in the event log": sum(life.steps for life in self.lives),
            "decisions": dict(sum((life.decided for life in self.lives), Counter[str]())),
            "longest wait in the queue, seconds": round(
                max((life.longest_wait for life in self.lives), default=0.0), 1
            ),
            "replays that differ": len(self.replays),
            "violations": len(self.violations),
        }

    def __str__(self) -> str:
        lines = [json.dumps(self.figures(), indent=2)]
        if self.violations:
            lines += ["", *self.violations[:50], "", "What broke, and when:"]
            lines += [f"{when:.2f} {what}" for when, what in self.storm.told[-400:]]
        return "\n".join(lines)


def as_text(figures: Mapping[str, object]) -> str:
    """The figures as a table, for benchmarks/results.md."""
    rows = [[name, _cell(value)] for name, value in figures.items()]
    return "\n\n".join(
        [
            f"Everything that can break broke at random (tests/e2e/test_chaos.py): children, the "
            f"scheduler, web workers, jobs, model files, peers on the control socket; {CLIENTS} "
            f"clients of {len(TENANTS)} tenants asked {len(PRESETS)} presets, with room for "
            f"{MODELS_MAX} children. Every answer that claimed to be whole was compared with the "
            "one right text; connections may break with their web worker only.",
            table(["", ""], rows),
        ]
    )


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_cell(of_it)}" for name, of_it in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(_cell(each) for each in value) or "none"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _few(values: Iterable[float], count: int = 10) -> list[float]:
    values = list(values)
    step = max(1, len(values) // count)
    return values[::step]
