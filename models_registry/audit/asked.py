"""What people ask of running models changes no row: it is recorded when the scheduler has agreed.
What it then does, does by itself, or refuses is in its own record.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from models_registry.audit.writing import record
from models_registry.models import Alias, Preset
from models_registry.ports import SchedulerRefused


@contextlib.contextmanager
def asked(action: str, preset: str, *, note: str = "") -> Iterator[None]:
    """`preset` is a name or an alias. One that is waited for too long is asked for all the same."""
    try:
        yield
    except SchedulerRefused as refused:
        if refused.code == "queue_timeout":
            asked_of(action, preset, note=str(refused))
        raise
    asked_of(action, preset, note=note)


def asked_of(action: str, preset: str, *, note: str = "", team: int | None = None) -> None:
    """`team` is that whose key asked."""
    id = Preset.objects.filter(name=preset).values_list("pk", flat=True).first()
    if id is None:
        found = Alias.objects.filter(name=preset).values_list("preset_id", "preset__name").first()
        if found is not None:
            told = f"asked for as {preset}"
            (id, preset), note = found, f"{told}; {note}" if note else told
    record(action, "preset", preset, id=id, team=team, note=note)
