"""What the management API gives of what is live, and of the record."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from ninja import Schema
from pydantic import Field, StrictInt

from models_registry.shapes import Moment, Page, Strict
from scheduler.limits import set_by
from scheduler.protocol import LAST_SHOWN, HoldupName, PlacementKind

Mib = Annotated[StrictInt, Field(ge=0, le=2**31 - 1)]

_PRESET = Field("", max_length=200, description="Of this preset only.")
_KIND = Field("", max_length=30, description="Of this kind only.")


_PLACEMENT = (
    "fixed: as its options say. whole: on one device. spread: on several. partial: some layers on "
    "the host. host: all of it there."
)


class InstanceOut(Schema):
    instance: int
    preset: str
    state: str = Field(description="loading, loaded, sleeping, draining or stopping.")
    leases: int = Field(description="Answers under way.")
    abandoned: int = Field(description="Those of them whose client has left.")
    parallel: int
    pid: int | None
    stale: bool = Field(description="Started before the preset's last change.")
    started_ago: float = Field(description="Seconds.")
    used_ago: float = Field(description="Seconds.")
    progress: float | None = Field(description="0 to 1 while it loads.")
    args: list[str] = Field(description="Of llama-server only: other command lines may hold keys.")
    meta: dict[str, Any] = Field(description="What the child reported when it became ready.")
    placement: PlacementKind | None = Field(description=_PLACEMENT)
    layers: dict[str, int] = Field(description="How many each device has.")
    context: int = Field(description="Tokens over all slots; 0: as its options say.")
    why: str = Field(description="The reason of the placement.")
    predicted: dict[str, int] = Field(description="Bytes on each device, as thought at its start.")
    least: dict[str, int] = Field(description="Of these, what it takes at its smallest context.")
    surplus: dict[str, int] = Field(description="Of these, what others took unforeseen before.")
    actual: dict[str, int] = Field(description="The same as it reports them once it is loaded.")
    held: dict[str, int] = Field(description="The same as the ledger counts them.")
    pinned: bool = Field(description="Never evicted for another model.")


class DeviceInstanceOut(Schema):
    instance: int
    preset: str
    held: int
    predicted: int
    actual: int | None = Field(description="null until it has reported.")


class DeviceStateOut(Schema):
    """Bytes."""

    device: str
    description: str
    kind: str
    total: int
    free: int
    external: int = Field(description="What other programs use.")
    held: int
    returning: int = Field(description="Of instances that are gone and not seen free yet.")
    leaving: int = Field(description="Of instances that go.")
    margin: int = Field(description="Stays free.")
    budget: int | None = Field(description="What Corral may use of it in all; null: the rest.")
    available: int = Field(description="What a start may take now; margin and budget are seen to.")
    utilisation: int | None = Field(description="Percent.")
    temperature: int | None = Field(description="Degrees Celsius.")
    power: float | None = Field(description="Watts.")
    stale: float | None = Field(description="Seconds for which it could not be read.")
    warning: str
    instances: list[DeviceInstanceOut]


class DeviceLimitPatch(Strict):
    """MiB. Only what is named is changed; null: no budget, or the margin of all devices."""

    budget: Mib | None = None
    margin: Mib | None = None


class DeviceLimitOut(Schema):
    device: str
    budget: int | None
    margin: int | None
    set_by: dict[str, str] = Field(
        description="Of budget and margin those that a variable or the command line sets above it."
    )

    @staticmethod
    def resolve_set_by(row: Any) -> dict[str, str]:
        return set_by(row.device)


class VictimOut(Schema):
    instance: int
    preset: str


_HOLDUP = (
    "turn: other models are loaded first. loader: it is the next; another load is under way. room: "
    "it is the next; `victims` are on their way out. busy: it is the next; all that could make way "
    "are answering. memory: it is the next; other programs use the memory that it needs. "
    "measuring: it is the next; what it takes is being measured. load: its model is being loaded. "
    "slot: its model answers as many as it may."
)
_VICTIMS = "Instances that go, or drain, for it."
_DRAIN_IN = "Seconds until a busy model takes no new request for its sake, at the latest."


class QueueEntryOut(Schema):
    preset: str
    waiters: int
    oldest: float = Field(description="Seconds for which its first request has waited.")
    holdup: HoldupName | None = Field(description=_HOLDUP)
    seconds: float | None = Field(
        description="Estimate until its next request is served; null: not known."
    )
    victims: list[VictimOut] = Field(description=_VICTIMS)
    drain_in: float | None = Field(description=_DRAIN_IN)


class QueuePage(Page):
    offset: int = Field(0, ge=0, le=LAST_SHOWN)


class WaiterOut(Schema):
    position: int = Field(description="1: the next.")
    request: str = Field(
        description="Its `x-request-id`; empty for a load that a person asked for."
    )
    tenant: str = Field(description="The team's name.")
    kind: str = Field(description="post, websocket, get, load or startup.")
    priority: str = Field(description="Of team and preset together.")
    waited: float = Field(description="Seconds since it first arrived.")
    seconds: float | None = Field(description="Estimate until it is served; null: not known.")


class ExplainedOut(Schema):
    state: str = Field(
        description="waiting, answering, or abandoned: its client has left, the model works on."
    )
    why: str = Field(description="All of it in words.")
    request: str
    preset: str
    tenant: str = Field(description="The team's name.")
    kind: str
    priority: str
    waited: float = Field(description="Seconds from its first arrival until now, or its lease.")
    holdup: HoldupName | None = Field(description=_HOLDUP)
    turn: int | None = Field(
        description="Of its model: 1 is the next to be loaded, 0 needs no load."
    )
    position: int | None = Field(description="Among those who wait for its model; 1: the next.")
    ahead: list[QueueEntryOut] = Field(
        description="Models to be loaded before its own; 20 at most."
    )
    victims: list[VictimOut] = Field(description=_VICTIMS)
    drain_in: float | None = Field(description=_DRAIN_IN)
    seconds: float | None = Field(description="Estimate until it is served; null: not known.")
    instance: int | None = Field(description="Which one answers it.")
    answering: float | None = Field(description="Seconds for which it has had its lease.")


class FailureOut(Schema):
    preset: str
    reason: str
    exit_code: int | None
    signal: int | None
    words: str
    failed_ago: float
    retry_after: float


class SavesOut(Schema):
    preset: str
    files: int = Field(description="Saved conversations that there are now.")
    bytes: int
    saved: int = Field(description="Slots, since the scheduler's start.")
    restored: int
    hits: int = Field(description="Requests that found what was restored for them.")
    seconds: float = Field(description="Of reading, that these were spared.")


class SchedulerOut(Schema):
    pid: int
    revision: int = Field(description="Of the registry, as the scheduler has read it.")
    models_max: int
    shutting_down: bool
    instances: int
    queue: int
    failures: list[FailureOut] = Field(description="Presets whose last load failed, and why.")
    saves: list[SavesOut] = Field(description="What is saved of conversations, by preset.")


class StatusOut(Schema):
    revision: int = Field(description="Of the registry, raised by every change.")
    scheduler: SchedulerOut | None = Field(description="null while it does not answer.")
    problem: str = Field(description="Why it does not; else empty.")


class InstanceRecordOut(Schema):
    id: int
    preset: str
    revision: int
    pid: int | None
    argv: list[str]
    started_at: datetime
    loaded_at: datetime | None
    ended_at: datetime | None
    reason: str
    exit_code: int | None
    signal: int | None
    words: str
    placement: str = Field(description=f"Empty for one that was given no room. {_PLACEMENT}")
    layers: dict[str, int] = Field(description="How many each device had.")
    context: int = Field(description="Tokens over all slots; 0: as its options said.")
    predicted: dict[str, int] = Field(description="Bytes on each device, as thought at its start.")
    actual: dict[str, int] = Field(description="The same as it reported them.")


class DecisionRecordOut(Schema):
    id: int
    at: datetime
    kind: str
    preset: str
    instance: int | None = Field(description="The id of one of /record/instances.")
    reason: str
    figures: dict[str, Any]

    @staticmethod
    def resolve_instance(row: Any) -> int | None:
        return row.instance_id if row.instance_id is None else int(row.instance_id)


class InstanceRecordFilter(Page):
    preset: str = _PRESET
    kind: str = Field("", max_length=30, description="Why it ended: the field `reason`.")
    since: Moment | None = Field(None, description="Started then or later.")

    def conditions(self) -> dict[str, Any]:
        asked = {"preset": self.preset, "reason": self.kind, "started_at__gte": self.since}
        return {name: value for name, value in asked.items() if value}


class DecisionRecordFilter(Page):
    preset: str = _PRESET
    kind: str = _KIND
    since: Moment | None = Field(None, description="Taken then or later.")

    def conditions(self) -> dict[str, Any]:
        asked = {"preset": self.preset, "kind": self.kind, "at__gte": self.since}
        return {name: value for name, value in asked.items() if value}
