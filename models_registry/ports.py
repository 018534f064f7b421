"""What the registry needs of the scheduler, as a Protocol: the registry may not import it.

`scheduler/apps.py` registers the implementation in `ready()`. All calls are synchronous, for the
admin's views; each raises SchedulerUnavailable when nobody answers on the control socket.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from models_registry.launch import LaunchSpec

PlacementWish = Literal["best", "now"]
"""Wait for the best place that the machine could give, or take the best that is free."""
PlacementKind = Literal["fixed", "whole", "spread", "partial", "host"]
"""As its options say; on one device; on several; some layers on the host; on the host alone."""


class SchedulerUnavailable(Exception):
    """The scheduler does not answer: is `manage.py runscheduler` (or `serve`) running?"""


class SchedulerRefused(Exception):
    """The scheduler said no; the message is for people, `code` for programs."""

    def __init__(
        self, message: str, code: str = "internal_error", retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True)
class Running:
    """One instance: where it is and why there; bytes on each device as they were predicted when it
    started, and as it reports them (empty before). `context` 0: as its options say. Of what is
    predicted, `least` is what it takes at its smallest context, `surplus` what others of its preset
    took beyond their figures."""

    instance: int
    state: str
    kind: PlacementKind | None = None
    layers: Mapping[str, int] = field(default_factory=dict)
    context: int = 0
    why: str = ""
    predicted: Mapping[str, int] = field(default_factory=dict)
    actual: Mapping[str, int] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)
    surplus: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fitting:
    """Where a preset would go: `kind` None when nowhere; `problem` then says why, with the figures.

    `layers` and `bytes` are by device, `context` in tokens over all slots (0: as its options say).
    `evicts` are the presets that would go for it; `waits`: it would not start at once.
    """

    kind: PlacementKind | None = None
    layers: dict[str, int] = field(default_factory=dict)
    context: int = 0
    bytes: dict[str, int] = field(default_factory=dict)
    evicts: list[str] = field(default_factory=list)
    waits: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class FitStep:
    """What it would take by device, `at` so many tokens of context or so many layers on devices.
    `now`: it fits beside all others; `empty`: with all other models gone."""

    at: int
    bytes: dict[str, int]
    now: bool
    empty: bool


@dataclass(frozen=True, slots=True)
class DeviceRoom:
    """Bytes of a device: all of it, and what this preset may take `now`, its own instances gone,
    and with all other models gone as well."""

    device: str
    total: int
    now: int
    empty: int


@dataclass(frozen=True, slots=True)
class FitLadders:
    """Step by step: larger contexts where it would go, and more layers on devices at its own."""

    contexts: list[FitStep] = field(default_factory=list)
    layers: list[FitStep] = field(default_factory=list)
    rooms: list[DeviceRoom] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FitAnswer:
    """`empty`: on the machine without any instance, other programs using what they use now.
    `estimated`: nobody has measured it yet. `ladders` only where they were asked for."""

    preset: str
    estimated: bool
    now: Fitting
    empty: Fitting
    ladders: FitLadders | None = None


def takes_nothing(preset: str) -> FitAnswer:
    """Of what runs on a remote server."""
    told = Fitting(problem="it runs on a remote server, and takes no memory of this machine")
    return FitAnswer(preset, estimated=False, now=told, empty=told)


@dataclass(frozen=True, slots=True)
class Saved:
    """What is saved of a preset's conversations now, and what it was good for since the scheduler's
    start: `hits` requests were spared so many `seconds` of reading."""

    files: int
    bytes: int
    hits: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PresetStatus:
    """A preset's live side. `state` is unloaded, loading, loaded, sleeping, draining,
    stopping, or remote for what runs elsewhere.

    `problem` is why it cannot be started as it is; empty when nothing speaks against it.
    `failure` is empty, or the reason and last words of the last failed load, and `exit` how its
    child ended. `stale`: what runs was started before the preset's last change. `progress` is 0 to
    1 while it loads. `holdup` says in words what its waiters wait for, but for its own load.
    `running` are its instances. `need` is what it takes at its smallest, in bytes by device; empty
    until it is measured as it is now.
    """

    state: str
    leases: int = 0
    waiters: int = 0
    failure: str = ""
    stale: bool = False
    progress: float | None = None
    exit: str = ""
    holdup: str = ""
    running: tuple[Running, ...] = ()
    need: Mapping[str, int] = field(default_factory=dict)
    saved: Saved | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TrialNews:
    """How a trial gets on, `seconds` after it began: it `waits` (for what, in `words`), `loads`,
    has `loaded` and is being asked, has `answered`, or has `failed` (`words` say why, with the
    child's last lines).

    `made_way` are presets that had to go for it. Of an answer: `first` is the seconds to its first
    token, `tokens` their number; a speed is in tokens a second, None where nobody tells it.
    """

    stage: Literal["waits", "loads", "loaded", "answered", "failed"]
    seconds: float
    words: str = ""
    progress: float | None = None
    running: Running | None = None
    made_way: tuple[str, ...] = ()
    load_seconds: float = 0.0
    first: float | None = None
    tokens: int = 0
    read_speed: float | None = None
    answer_speed: float | None = None


class Scheduler(Protocol):
    def load(self, preset: str, *, wait: bool = False) -> bool:
        """Whether it is loaded now; False: it is queued. With `wait` it returns when loaded."""
        ...

    def unload(self, preset: str, *, force: bool = False) -> bool:
        """Whether anything ran that goes now."""
        ...

    def apply(self, preset: str) -> None:
        """A stale instance goes now, not when it is idle; the next one runs the preset as it is."""
        ...

    def measure(self, preset: str) -> None:
        """Measure anew what the preset needs, in the background."""
        ...

    def reload(self, revision: int) -> None: ...

    def command_line(self, preset: str, argv: Sequence[str]) -> tuple[str, ...]:
        """What a start would run, program first, for these rendered options. Asks no process; the
        socket's path, which is another one at each start, is a placeholder. Raises EngineMissing.
        """
        ...

    def fit(self, preset: str) -> FitAnswer:
        """Where the preset as it is saved would go; nothing is changed."""
        ...

    def fit_edited(self, spec: LaunchSpec, *, ladders: bool = False) -> FitAnswer:
        """The same for a preset that is being edited. It may take seconds: a model that has not
        been measured is read."""
        ...

    def tried(self, spec: LaunchSpec) -> AsyncGenerator[TrialNews]:
        """Loads a preset that is being edited, asks it for a few tokens, and ends it: nothing is
        saved, and what made way for it is loaded again. Closing the generator ends the trial. Like
        `fit_edited` it may take a moment before it begins."""
        ...

    def devices(self) -> tuple[str, ...]:
        """Those whose memory it counts, by the engine's names, and the host as `Host`."""
        ...

    def statuses(self) -> dict[str, PresetStatus]:
        """By preset name; presets that are unloaded, never failed and were not measured may be
        missing."""
        ...

    def last_used(self, presets: Collection[str]) -> dict[str, datetime]:
        """When the last instance of each ended, or, while one runs, when it was started. By the
        record, which ends somewhere; asks no process."""
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
