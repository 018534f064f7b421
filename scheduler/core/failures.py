"""Loads that failed: how often in a row, and how long nothing is tried again (A4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .instances import Instance
from .states import State
from .values import Code, Config, Exit, PresetName

_MOST_DOUBLINGS = 30  # keeps the power small; the longest back-off is reached long before


@dataclass(frozen=True, slots=True)
class Failure:
    """A preset's last failed load. Nothing is loaded for it before `until`."""

    code: Code
    exit: Exit
    failed_at: float
    until: float
    in_a_row: int


class Failures:
    """Per preset, until a load succeeds, its options change, or a person asks for a load."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._failed: dict[PresetName, Failure] = {}
        self._out_of_memory: dict[PresetName, int] = {}
        self._has_loaded: set[PresetName] = set()
        self._most_step: dict[PresetName, int] = {}
        self._too_large: set[PresetName] = set()
        self.view: Mapping[PresetName, Failure] = MappingProxyType(self._failed)

    def backing_off(self, preset: PresetName, now: float) -> Failure | None:
        failure = self._failed.get(preset)
        return failure if failure is not None and now < failure.until else None

    def broken(self, preset: PresetName) -> Exit | None:
        """A4: how its last load failed, if it is known to be broken: it failed by itself, and has
        never loaded with these options; or it failed, for whatever reason, so often in a row.
        Nobody is evicted for another try: not until its options or files change, one succeeds where
        there is room, or a person asks."""
        failure = self._failed.get(preset)
        if failure is None:
            return None
        often = failure.in_a_row >= self._config.broken_after
        by_itself = failure.code is Code.MODEL_LOAD_FAILED and preset not in self._has_loaded
        return failure.exit if often or by_itself else None

    def note_success(self, preset: PresetName) -> None:
        """A load has succeeded: whatever failed before it, the preset is not broken."""
        self._has_loaded.add(preset)
        self._most_step.pop(preset, None)
        self.clear(preset)

    def forget(self, preset: PresetName) -> None:
        """Its options or files have changed: what failed or loaded was not this."""
        self._has_loaded.discard(preset)
        self._most_step.pop(preset, None)
        self._too_large.discard(preset)
        self.clear(preset)

    def most_step(self, preset: PresetName, largest: int) -> int:
        """Which of its contexts is worth trying after a load that ran out of memory (A4)."""
        return min(largest, self._most_step.get(preset, largest))

    def try_smaller(self, preset: PresetName, step: int) -> None:
        """With this context it ran out of memory."""
        self._most_step[preset] = max(0, step - 1)

    def too_large(self, preset: PresetName) -> bool:
        """L6: alone on the machine it ran out of memory. It is not tried again until its files or
        options change, or a person asks."""
        return preset in self._too_large

    def note_too_large(self, preset: PresetName) -> None:
        self._too_large.add(preset)

    def may_retry_out_of_memory(self, preset: PresetName) -> bool:
        """Counts one more load that ran out of memory; may there be another?"""
        loads = self._out_of_memory.get(preset, 0) + 1
        self._out_of_memory[preset] = loads
        return loads < self._config.out_of_memory_loads

    def record(self, preset: PresetName, code: Code, exit: Exit, now: float) -> Failure:
        """The load has failed for good; the back-off doubles with each failure in a row."""
        before = self._failed.get(preset)
        in_a_row = before.in_a_row + 1 if before else 1
        doubled = self._config.backoff_first_seconds * 2 ** min(in_a_row - 1, _MOST_DOUBLINGS)
        until = now + min(doubled, self._config.backoff_longest_seconds)
        failure = Failure(code, exit, now, until, in_a_row)
        self._failed[preset] = failure
        self._out_of_memory.pop(preset, None)
        return failure

    def clear(self, preset: PresetName) -> None:
        self._too_large.discard(preset)
        self._failed.pop(preset, None)
        self._out_of_memory.pop(preset, None)


def failed_to_load(instance: Instance, exit: Exit) -> bool:
    """A4: it died by itself while it loaded. A wake that dies is a crash, and its waiters get a
    new start; but what ran out of memory counts as a load in either case."""
    return instance.state is State.LOADING and (not instance.has_loaded or exit.out_of_memory)
