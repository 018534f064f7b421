"""What loads and answers have taken so far: the ground of every estimate. Times in seconds."""

from __future__ import annotations

from collections.abc import Container, Mapping

from .values import PresetName, PresetSpec

_FASTEST = 100_000.0  # tokens a second of one slot; more is a miscount
_NEWEST = 0.3  # how much the newest of a row of figures counts
_FIRST_GUESS_LOAD = 5.0
_FIRST_GUESS_ANSWER = 5.0
_FIRST_GUESS_EXIT = 0.5


def _smoothed(before: float | None, newest: float) -> float:
    return newest if before is None else before + _NEWEST * (newest - before)


class Learned:
    """Smoothed means; for a preset of which nothing is known yet, those of all together."""

    def __init__(self, presets: Mapping[PresetName, PresetSpec]) -> None:
        self._presets = presets
        self._loads: dict[PresetName, float] = {}
        self._answers: dict[PresetName, float] = {}
        self._any_load: float | None = None
        self._any_answer: float | None = None
        self._exit: float | None = None
        self.tokens_per_second: float | None = None
        """Of one slot."""

    def note_load(self, preset: PresetName, seconds: float) -> None:
        self._loads[preset] = _smoothed(self._loads.get(preset), seconds)
        self._any_load = _smoothed(self._any_load, seconds)

    def note_answer(self, preset: PresetName, seconds: float, tokens: int | None) -> None:
        self._answers[preset] = _smoothed(self._answers.get(preset), seconds)
        spec = self._presets.get(preset)
        if spec is not None and spec.remote:
            return  # how fast that is says nothing of this machine
        self._any_answer = _smoothed(self._any_answer, seconds)
        if tokens and seconds > 0 and tokens / seconds < _FASTEST:
            self.tokens_per_second = _smoothed(self.tokens_per_second, tokens / seconds)

    def note_exit(self, seconds: float) -> None:
        self._exit = _smoothed(self._exit, seconds)

    def forget(self, preset: PresetName) -> None:
        """Its options or files have changed."""
        self._loads.pop(preset, None)
        self._answers.pop(preset, None)

    def keep_only(self, presets: Container[PresetName]) -> None:
        """The others are gone."""
        for known in (self._loads, self._answers):
            for name in [name for name in known if name not in presets]:
                del known[name]

    def load(self, preset: PresetName) -> float:
        """What the record knows, of more loads than this life has seen, comes first."""
        spec = self._presets.get(preset)
        if spec is not None and spec.load_seconds is not None:
            return spec.load_seconds
        learned = self._loads.get(preset)
        return self.any_load() if learned is None else learned

    def any_load(self) -> float:
        return _FIRST_GUESS_LOAD if self._any_load is None else self._any_load

    def known_answer(self, preset: PresetName) -> float:
        """0 while nothing is known of it."""
        return self._answers.get(preset, 0.0)

    def answer(self, preset: PresetName) -> float:
        learned = self._answers.get(preset, self._any_answer)
        return _FIRST_GUESS_ANSWER if learned is None else learned

    def exit(self) -> float:
        return _FIRST_GUESS_EXIT if self._exit is None else self._exit
