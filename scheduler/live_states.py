"""What is alive, as the control socket tells it: instances, the queue, failures, changes."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .memory_states import PlacementKind

PriorityName = Literal["low", "normal", "high"]


class Ended(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a release's `ok["ended"]` holds when the instance is gone: why, and its last words
    if it never became ready (those of one that has served may quote other clients).

    `by_itself` is true for a crash, false when Corral stopped it.
    """

    by_itself: bool
    reason: str
    exit_code: int | None = None
    signal: int | None = None
    words: str = ""


class InstanceState(msgspec.Struct, frozen=True):
    """A running child in a snapshot. Times are seconds ago; `progress` is 0 to 1 while loading.

    `placement`, the `layers` of each device, `context` (tokens over all slots; 0: as its options
    say) and `why` are what it was started with and the reason of the choice. Bytes on each device:
    `predicted` at its start, of which `least` is what it takes at its smallest context and
    `surplus` what others took beyond their figures before; `actual` as it reports it (empty
    before), `held` in the ledger.
    """

    instance: int
    preset: str
    state: str  # loading, loaded, sleeping, draining, stopping
    leases: int
    abandoned: int
    parallel: int
    pid: int | None
    stale: bool
    started_ago: float
    used_ago: float
    progress: float | None = None
    args: list[str] = []
    meta: dict[str, Any] = {}  # what the child reported when it became ready
    placement: PlacementKind | None = None
    layers: dict[str, int] = {}
    context: int = 0
    why: str = ""
    predicted: dict[str, int] = {}
    least: dict[str, int] = {}
    surplus: dict[str, int] = {}
    actual: dict[str, int] = {}
    held: dict[str, int] = {}
    kept: float | None = None
    """Seconds for which it is still kept, or will be once it is idle; None: until its room is
    needed."""
    pinned: bool = False


class RemoteState(msgspec.Struct, frozen=True):
    """A preset that runs elsewhere. `leases` are its requests under way, of `parallel` at once;
    `used_ago` is null while it has not been used."""

    preset: str
    leases: int
    parallel: int
    used_ago: float | None = None


class Victim(msgspec.Struct, frozen=True):
    """An instance that goes, or drains, so that another may start."""

    instance: int
    preset: str


HoldupName = Literal[
    "turn", "loader", "room", "busy", "memory", "detached", "measuring", "load", "slot"
]
"""What a queued preset waits for: that others are loaded first; that another load ends; that its
victims have gone; that one of those who answer drains; that other programs free memory; that one of
those who answer becomes idle, for its clients have lost their connection; that it is measured; its
own load; a free slot."""


class QueueEntry(msgspec.Struct, frozen=True):
    """A preset that waits, with its waiters; `oldest` is the seconds its first one has waited, and
    `seconds` the estimate until that is served (null: not known). `drain_in`: seconds until a busy
    model takes no new request for its sake, at the latest."""

    preset: str
    waiters: int
    oldest: float
    holdup: HoldupName | None = None
    seconds: float | None = None
    victims: list[Victim] = []
    drain_in: float | None = None


class Waiter(msgspec.Struct, frozen=True):
    """One who waits: `position` 1 is the next of those who wait for its preset."""

    position: int
    request: str
    tenant: str
    kind: str
    priority: PriorityName
    waited: float
    seconds: float | None


class Upcoming(msgspec.Struct, frozen=True):
    """Of a request that came now. `seconds` is the estimate until it were served: None where that
    is not known, or where it would be refused; `holdup` what it would wait for, None for nothing;
    `makes_way` who would go for it; `refused` what it would be told, empty where it would not;
    `failed`: its model's last load did, and it is tried again."""

    seconds: float | None
    holdup: HoldupName | None = None
    makes_way: tuple[str, ...] = ()
    refused: str = ""
    failed: bool = False


class WaitersPage(msgspec.Struct, frozen=True):
    """What the `ok` of `waiters` holds; `count` is how many there are in all, `next` what one more
    would wait for."""

    preset: str
    count: int
    items: list[Waiter]
    next: Upcoming = Upcoming(None)


class Explained(msgspec.Struct, frozen=True):
    """What the `ok` of `explain` holds. `why` says it all in words.

    `waited` is from its first arrival until now, or until it got its lease. While it waits: `turn`
    (1: its model is the next to be loaded, 0: it needs no load), `position` among those who wait
    for its model, the models `ahead` (20 at most), `seconds` the estimate until it is served. Once
    it has its lease: on which instance, and for how long (`answering`).
    """

    state: Literal["waiting", "answering", "abandoned"]
    why: str
    request: str
    preset: str
    tenant: str
    kind: str
    priority: PriorityName
    waited: float
    holdup: HoldupName | None = None
    turn: int | None = None
    position: int | None = None
    ahead: list[QueueEntry] = []
    victims: list[Victim] = []
    drain_in: float | None = None
    seconds: float | None = None
    instance: int | None = None
    answering: float | None = None


class Failure(msgspec.Struct, frozen=True):
    """Why a preset's last load failed, until one succeeds. `retry_after` in seconds."""

    preset: str
    reason: str
    exit_code: int | None
    signal: int | None
    words: str
    failed_ago: float
    retry_after: float


class Happened(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of a subscription's replies: what a preset is like after a change, or what became of the
    registry. `number` grows by one with each, within one `life` of the scheduler.

    `instances` are all of the preset, empty when none is there; `remote`: it has none, for it runs
    elsewhere; `queued`: somebody waits for a first one; `ended` is the instance whose end this is
    about. `revision` is that of the registry when it has been read anew, and `gone` the presets
    that are not offered any more.
    """

    life: str
    number: int
    preset: str = ""
    instances: list[InstanceState] = []
    remote: bool = False
    queued: bool = False
    measuring: bool = False
    failure: Failure | None = None
    ended: Ended | None = None
    revision: int | None = None
    gone: list[str] = []
    activity: bool = False
    """It is about no preset, and is not counted: leases, waiters or free memory have changed."""


class SavesState(msgspec.Struct, frozen=True):
    """What is saved of a preset's conversations (docs/kv-saves.md): `files` of so many `bytes`
    there are now. Since the scheduler's start so many slots were `saved` and `restored`, `hits`
    requests have found what was restored for them, and were spared so many `seconds` of reading."""

    preset: str
    files: int
    bytes: int
    saved: int
    restored: int
    hits: int
    seconds: float


class SnapshotState(msgspec.Struct, frozen=True):
    """What a snapshot's `ok` holds: all that is live."""

    pid: int
    revision: int
    models_max: int
    shutting_down: bool
    instances: list[InstanceState]
    queue: list[QueueEntry]
    failures: list[Failure]
    remotes: list[RemoteState] = []
    measured: dict[str, dict[str, int]] = {}
    """Bytes on each device, by preset: of those that are measured as they are now."""
    jobs_ago: float | None = None
    """Seconds since the jobs process showed life; null: it has not, since the scheduler started."""
    saves: list[SavesState] = []
    problems: dict[str, str] = {}
    """Why presets cannot be started, each as it is now."""
