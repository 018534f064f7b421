"""How soon a preset will probably be asked for again: what is worth keeping loaded.

The least recently used is a poor guess where some models are asked for often and others seldom: a
popular one that happens to have been idle for a minute goes for one that is asked for once a day.
The least often used is a poor guess where people change their minds. The mean time between its
requests and the time it has been idle, added up, do well in both.
"""

from __future__ import annotations

from collections.abc import Container
from math import exp

from .values import PresetName

_WINDOW = 1800.0
"""Seconds over which a request fades from the count, exponentially."""
_SELDOM = 18_000.0
"""Seconds between two requests beyond which nothing is known of how often it is asked for."""


class Demand:
    def __init__(self) -> None:
        self._counts: dict[PresetName, tuple[float, float]] = {}
        """Of each preset its requests, faded, and when they were last counted."""

    def note(self, preset: PresetName, now: float) -> None:
        """It has been asked for."""
        self._counts[preset] = self._count(preset, now) + 1.0, now

    def keep_only(self, presets: Container[PresetName]) -> None:
        """The others are gone."""
        for name in [name for name in self._counts if name not in presets]:
            del self._counts[name]

    def rename(self, preset: PresetName, to: PresetName, now: float) -> None:
        if preset in self._counts:
            self._counts[to] = self._count(preset, now) + self._count(to, now), now
            del self._counts[preset]

    def interval(self, preset: PresetName, now: float) -> float | None:
        """Mean seconds between its requests lately; None where that is nearly never."""
        seconds = self._interval(preset, now)
        return seconds if seconds < _SELDOM else None

    def wanted_in(self, preset: PresetName, last_used: float, now: float) -> float:
        """Seconds until it is probably asked for again, after that long without a use."""
        return self._interval(preset, now) + now - last_used

    def _interval(self, preset: PresetName, now: float) -> float:
        return _WINDOW / max(self._count(preset, now), _WINDOW / _SELDOM)

    def _count(self, preset: PresetName, now: float) -> float:
        count, at = self._counts.get(preset, (0.0, now))
        return count * exp((at - now) / _WINDOW)
