"""What the record is told, counted as well."""

from __future__ import annotations

from datetime import datetime

from scheduler.core.values import InstanceId
from scheduler.tally import Tally

from .record import Entry, Gone, Loaded, Record, Started

STARTS = "corral_model_starts_total"
ENDS = "corral_model_ends_total"
LOAD_SECONDS = "corral_model_load_seconds"


class TalliedRecord:
    """Called as the record is; in the owner's turn."""

    def __init__(self, record: Record, tally: Tally) -> None:
        self._record = record
        self._tally = tally
        self._loading: dict[InstanceId, tuple[str, datetime]] = {}
        self._names: dict[InstanceId, str] = {}

    def __call__(self, entry: Entry) -> None:
        match entry:
            case Started(instance=instance, preset=preset, at=at):
                self._names[instance] = preset
                self._loading[instance] = preset, at
                self._tally.count(STARTS, (preset,))
            case Loaded(instance=instance, at=at):
                if (begun := self._loading.pop(instance, None)) is not None:
                    preset, since = begun
                    self._tally.spread(LOAD_SECONDS, (preset,), (at - since).total_seconds())
            case Gone(instance=instance, reason=reason):
                self._loading.pop(instance, None)
                self._tally.count(ENDS, (self._names.pop(instance, ""), reason))
        self._record(entry)
