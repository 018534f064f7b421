"""Charts as shapes for an SVG that the page itself holds: no script, and the same on paper. What
they are drawn with (colours, light and dark) is in the style sheet, and what they show stands as
text in the table under each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

WIDTH, HEIGHT = 760, 220
LEFT, RIGHT, TOP, BOTTOM = 60, 8, 12, 24
GRID_LINES = 4
MOST_TICKS = 8
GAP = 0.15
"""Of a bar's width: what stays free between two."""

Tell = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Line:
    """`slot` is the number of its colour, `path` what an SVG path draws."""

    slot: int
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A text on an axis, at `x` or `y`."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Column:
    """What a pointer that rests on it is told."""

    x: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    filled: bool
    lines: list[Line]
    grid: list[Mark]
    ticks: list[Mark]
    columns: list[Column]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM
    bottom_text: int = HEIGHT - 8
    column_height: int = HEIGHT - TOP - BOTTOM


Values = Mapping[str, Sequence[float]]


def bars(labels: Sequence[str], values: Values, tell: Tell) -> Chart:
    """One on top of the other, in the order of `values`. NaN is nothing."""
    heights = [sum(_known(each[at]) for each in values.values()) for at in range(len(labels))]
    scale = _Scale(len(labels), max(heights, default=0.0))
    below = [0.0] * len(labels)
    lines = []
    for slot, (name, each) in enumerate(values.items()):
        lines.append(Line(slot, name, "".join(_bars(scale, below, each))))
        below = [under + _known(value) for under, value in zip(below, each, strict=True)]
    return Chart(True, lines, *_axes(scale, labels, values, tell))


def curves(labels: Sequence[str], values: Values, tell: Tell) -> Chart:
    """A line each, broken where a value is NaN."""
    known = [_known(value) for each in values.values() for value in each]
    scale = _Scale(len(labels), max(known, default=0.0))
    lines = [
        Line(slot, name, "".join(_curve(scale, each)))
        for slot, (name, each) in enumerate(values.items())
    ]
    return Chart(False, lines, *_axes(scale, labels, values, tell))


@dataclass(frozen=True, slots=True)
class _Scale:
    count: int
    most: float

    @property
    def step(self) -> float:
        return (WIDTH - LEFT - RIGHT) / max(1, self.count)

    @property
    def highest(self) -> float:
        return _round_up(self.most)

    def x(self, at: float) -> float:
        return LEFT + at * self.step

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.highest


def _bars(scale: _Scale, below: Sequence[float], values: Sequence[float]) -> Iterator[str]:
    width = scale.step * (1 - GAP)
    for at, value in enumerate(values):
        if _known(value) > 0:
            bottom, top = scale.y(below[at]), scale.y(below[at] + value)
            x = scale.x(at + GAP / 2)
            yield f"M{x:.1f} {bottom:.1f}V{top:.1f}h{width:.1f}V{bottom:.1f}z"


def _curve(scale: _Scale, values: Sequence[float]) -> Iterator[str]:
    """One that stands alone is a dash."""
    drawing = False
    for at, value in enumerate(values):
        if math.isnan(value):
            drawing = False
            continue
        x, y = scale.x(at + 0.5), scale.y(value)
        yield f"L{x:.1f} {y:.1f}" if drawing else f"M{x - 3:.1f} {y:.1f}h6M{x:.1f} {y:.1f}"
        drawing = True


def _axes(
    scale: _Scale, labels: Sequence[str], values: Values, tell: Tell
) -> tuple[list[Mark], list[Mark], list[Column]]:
    parts = [scale.highest * number / GRID_LINES for number in range(GRID_LINES + 1)]
    grid = [Mark(round(scale.y(part), 1), tell(part)) for part in parts]
    every = max(1, math.ceil(len(labels) / MOST_TICKS))
    ticks = [
        Mark(round(scale.x(at + 0.5), 1), label)
        for at, label in enumerate(labels)
        if at % every == every // 2
    ]
    columns = [
        Column(round(scale.x(at), 1), round(scale.step, 1), _told(label, at, values, tell))
        for at, label in enumerate(labels)
    ]
    return grid, ticks, columns


def _told(label: str, at: int, values: Values, tell: Tell) -> str:
    parts = [f"{name} {tell(each[at])}" for name, each in values.items() if _known(each[at]) > 0]
    return f"{label}: {', '.join(parts) or _('nothing')}"


def _known(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _round_up(value: float) -> float:
    """To 1, 2 or 5 and noughts, so that the grid's lines have short names; never 0."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 4, 5, 8, 10) if power * step >= value * 0.9999999)
