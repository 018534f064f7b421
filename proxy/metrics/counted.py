"""What was counted, in Prometheus' text form: the many lines of the page.

Its library writes the same, with all its checks of each name and label in ten times the time: that
was a third of a second of a core for a hundred models of twenty teams, held by one thread beside
those who answer. Here names are ours, and values are numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proxy.metrics.families import COUNTS, SPREADS, Family
from scheduler.tally import SECONDS, Tallied

_BOUNDS = (*(f"{bound:g}" for bound in SECONDS), "+Inf")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

NAMES = frozenset({*(name.removesuffix("_total") for name in COUNTS), *SPREADS})
"""As the library calls these families."""


def counted(tallied: Tallied) -> Iterator[str]:
    """Lines, with their newlines."""
    for name, family in COUNTS.items():
        yield from _head(name, family, "counter")
        for count in tallied.counts:
            if count.name == name and len(count.labels) == len(family.labels):
                yield f"{name}{{{_labels(family, count.labels)}}} {count.value!r}\n"
    for name, family in SPREADS.items():
        yield from _head(name, family, "histogram")
        for spread in tallied.spreads:
            if spread.name == name and len(spread.labels) == len(family.labels):
                labels = _labels(family, spread.labels)
                yield from _histogram(name, labels, spread.ranges, spread.total)


def _head(name: str, family: Family, kind: str) -> tuple[str, str]:
    return f"# HELP {name} {family.help}\n", f"# TYPE {name} {kind}\n"


def _histogram(name: str, labels: str, ranges: Sequence[int], total: float) -> Iterator[str]:
    so_far = 0
    for bound, number in zip(_BOUNDS, ranges, strict=True):
        so_far += number
        yield f'{name}_bucket{{le="{bound}",{labels}}} {so_far}\n'
    yield f"{name}_count{{{labels}}} {so_far}\n{name}_sum{{{labels}}} {total!r}\n"


def _labels(family: Family, values: Sequence[str]) -> str:
    return ",".join(
        f'{name}="{value.translate(_ESCAPES)}"'
        for name, value in zip(family.labels, values, strict=True)
    )
