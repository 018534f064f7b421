"""What the registry needs of the scheduler, as a Protocol: the registry may not import it.

`scheduler/apps.py` registers the implementation in `ready()`. All calls are synchronous, for the
admin's views; each raises SchedulerUnavailable when nobody answers on the control socket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class SchedulerUnavailable(Exception):
    """The scheduler does not answer: is `manage.py runscheduler` (or `serve`) running?"""


class SchedulerRefused(Exception):
    """The scheduler said no; the message is for people."""


@dataclass(frozen=True, slots=True)
class PresetStatus:
    """A preset's live side. `state` is unloaded, loading, loaded, sleeping, draining or stopping.

    `failure` is empty, or the reason and last words of the last failed load.
    """

    state: str
    leases: int = 0
    waiters: int = 0
    failure: str = ""


class Scheduler(Protocol):
    def load(self, preset: str) -> None: ...

    def unload(self, preset: str, *, force: bool = False) -> None: ...

    def reload(self, revision: int) -> None: ...

    def statuses(self) -> dict[str, PresetStatus]:
        """By preset name; presets that are unloaded and never failed may be missing."""
        ...


_scheduler: Scheduler | None = None


def register(scheduler: Scheduler) -> None:
    global _scheduler
    _scheduler = scheduler


def scheduler() -> Scheduler:
    """The registered implementation. Raises SchedulerUnavailable when there is none."""
    if _scheduler is None:
        raise SchedulerUnavailable("no scheduler is registered in this process")
    return _scheduler
