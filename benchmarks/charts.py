"""Line charts as SVG, in plain text: nothing to install, and a diff shows what moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 420, 300
LEFT, TOP, BOTTOM = 56, 20, 46
LEGEND = 290
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
