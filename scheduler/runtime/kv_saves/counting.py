"""What saves are worth, counted for each preset: for /metrics and for the snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.protocol import SavesState
from scheduler.tally import Tally

from .store import Save


@dataclass(slots=True)
class _Of:
    files: int = 0
    size: int = 0
    saved: int = 0
    restored: int = 0
    hits: int = 0
    seconds: float = 0.0


class Counting:
    """Since the scheduler's start, but for the files."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._by_preset: dict[str, _Of] = {}

    def saved(self, saves: Iterable[Save]) -> None:
        for save in saves:
            self._of(save).saved += 1
            self._count("saved", save)
            self._count("saved_bytes", save, save.size)

    def restored(self, saves: Iterable[Save]) -> None:
        for save in saves:
            self._of(save).restored += 1
            self._count("restored", save)

    def came_back(self, save: Save, took_seconds: float) -> None:
        """A request has found what was restored in `took_seconds`."""
        spared = max(0.0, save.seconds - took_seconds)
        of = self._of(save)
        of.hits += 1
        of.seconds += spared
        self._count("hits", save)
        self._count("hit_tokens", save, save.tokens)
        self._count("spared_seconds", save, spared)

    def dropped(self, save: Save, why: str) -> None:
        self._tally.count("corral_kv_saves_dropped_total", (save.kind.preset, why))

    def files(self, saves: Iterable[Save]) -> None:
        """All that there are now."""
        for of in self._by_preset.values():
            of.files = of.size = 0
        for save in saves:
            of = self._of(save)
            of.files += 1
            of.size += save.size

    def states(self) -> list[SavesState]:
        return [
            SavesState(
                preset=preset,
                files=of.files,
                bytes=of.size,
                saved=of.saved,
                restored=of.restored,
                hits=of.hits,
                seconds=round(of.seconds, 3),
            )
            for preset, of in sorted(self._by_preset.items())
        ]

    def _of(self, save: Save) -> _Of:
        return self._by_preset.setdefault(save.kind.preset, _Of())

    def _count(self, what: str, save: Save, by: float = 1.0) -> None:
        self._tally.count(f"corral_kv_{what}_total", (save.kind.preset,), by)
