"""Charts as SVG, in plain text: nothing to install, and a diff shows what moved."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 420, 300
LEFT, TOP, BOTTOM = 56, 20, 46
LEGEND = 290
BAR_WIDTH, BAR_LEFT, BAR_RIGHT = 720, 210, 70
BAR_STEP, BAR_TITLE = 22, 30
COLOURS = (
    "#000000", "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd",
    "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
)  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """One picture: values of each line over `xs`, which stand on a logarithmic axis. One that is
    not a number is left out."""

    x_label: str
    xs: Sequence[float]
    lines: Mapping[str, Sequence[float]]


def line_charts(panels: Sequence[Panel], y_label: str, *, aim: float | None = None) -> str:
    """Panels side by side, each with a linear scale of its own, and one legend; `aim` is drawn
    across all."""
    width = len(panels) * WIDTH + LEGEND
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" '
        f'viewBox="0 0 {width} {HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{HEIGHT}" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        scale = _Scale.of(panel, aim or 0.0)
        parts.append(f'<g transform="translate({number * WIDTH} 0)">')
        parts += _axes(panel, scale, y_label)
        if aim is not None:
            parts += _aim(scale, aim)
        parts += _lines(panel, scale)
        parts.append("</g>")
    parts += _legend(list(panels[0].lines), len(panels) * WIDTH + 16)
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True)
class Bars:
    """One picture: a bar for each name, in a unit of its own. The lowest and the highest value
    stand as a line on it."""

    title: str
    values: Mapping[str, Sequence[float]]
    form: str = ",.0f"


def bar_charts(pictures: Sequence[Bars]) -> str:
    """One under the other, each with its own scale; a bar is as long as the median."""
    height = sum(BAR_TITLE + len(bars.values) * BAR_STEP for bars in pictures) + BAR_TITLE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{BAR_WIDTH}" height="{height}" '
        f'viewBox="0 0 {BAR_WIDTH} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{BAR_WIDTH}" height="{height}" fill="white"/>',
    ]
    y = 0
    for bars in pictures:
        y += BAR_TITLE
        parts.append(f'<text x="8" y="{y - 8}" font-weight="bold">{escape(bars.title)}</text>')
        highest = max(max(values) for values in bars.values.values()) or 1.0
        for (name, values), colour in zip(bars.values.items(), _colours(), strict=False):
            parts += _bar(y, name, values, highest, colour, bars.form)
            y += BAR_STEP
    return "\n".join([*parts, "</svg>", ""])


def _bar(
    y: float, name: str, values: Sequence[float], highest: float, colour: str, form: str
) -> list[str]:
    room = BAR_WIDTH - BAR_LEFT - BAR_RIGHT
    low, middle, high = (
        value / highest * room for value in (min(values), statistics.median(values), max(values))
    )
    centre = y + BAR_STEP / 2
    return [
        _text(BAR_LEFT - 8, centre + 4, name, "end"),
        f'<rect x="{BAR_LEFT}" y="{y + 3}" width="{middle:.1f}" height="{BAR_STEP - 6}" '
        f'fill="{colour}"/>',
        f'<path d="M{BAR_LEFT + low:.1f} {centre}H{BAR_LEFT + high:.1f}" stroke="#333333"/>',
        _text(BAR_LEFT + high + 8, centre + 4, f"{statistics.median(values):{form}}", "start"),
    ]


def _colours() -> Iterator[str]:
    """Without black, which is for lines."""
    return itertools.cycle(COLOURS[1:])


@dataclass(frozen=True)
class _Scale:
    highest: float

    @classmethod
    def of(cls, panel: Panel, least: float) -> _Scale:
        values = [value for line in panel.lines.values() for value in line]
        top = max((value for value in values if not math.isnan(value)), default=0.0)
        return cls(_round_up(max(top, least) * 1.05))

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.highest * (HEIGHT - BOTTOM - TOP)


def _x(panel: Panel, value: float) -> float:
    low, high = math.log(panel.xs[0]), math.log(panel.xs[-1])
    share = (math.log(value) - low) / (high - low) if high > low else 0.5
    return LEFT + 12 + share * (WIDTH - LEFT - 36)


def _axes(panel: Panel, scale: _Scale, y_label: str) -> list[str]:
    parts = []
    for tick in range(6):
        value = scale.highest * tick / 5
        y = scale.y(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - 12}" stroke="#dddddd"/>')
        parts.append(_text(LEFT - 6, y + 4, f"{value:g}", "end"))
    for value in panel.xs:
        parts.append(_text(_x(panel, value), HEIGHT - BOTTOM + 16, f"{value:,}", "middle"))
    middle = (LEFT + WIDTH - 12) / 2
    parts.append(_text(middle, HEIGHT - 10, panel.x_label, "middle"))
    parts.append(_text(LEFT - 6, TOP - 7, y_label, "start"))
    return parts


def _aim(scale: _Scale, aim: float) -> list[str]:
    y = scale.y(aim)
    dashes = 'stroke="#555555" stroke-dasharray="5 4"'
    return [
        f'<path d="M{LEFT} {y:.1f}H{WIDTH - 12}" {dashes}/>',
        _text(WIDTH - 14, y - 4, f"aim: {aim:g}", "end"),
    ]


def _lines(panel: Panel, scale: _Scale) -> list[str]:
    parts = []
    for colour, values in zip(COLOURS, panel.lines.values(), strict=False):
        points = [
            (_x(panel, x), scale.y(value))
            for x, value in zip(panel.xs, values, strict=True)
            if not math.isnan(value)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{colour}"/>' for x, y in points]
    return parts


def _legend(names: Sequence[str], x: float) -> list[str]:
    parts = []
    for number, (colour, name) in enumerate(zip(COLOURS, names, strict=False)):
        y = TOP + 14 + number * 20
        parts.append(f'<path d="M{x} {y}h18" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(x + 24, y + 4, name, "start"))
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _round_up(value: float) -> float:
    """To 1, 2, 2.5 or 5 times a power of ten, so that a fifth of it is a round figure."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(power * step for step in (1, 2, 2.5, 5, 10) if value <= power * step)
