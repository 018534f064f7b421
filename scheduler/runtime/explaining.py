"""Why a request waits and for how long still, for the wire: figures, and a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from scheduler.core.explaining import Explanation, Holdup, QueuedPreset
from scheduler.core.states import State
from scheduler.core.values import InstanceId, Kind, PresetName, Priority, RequestId
from scheduler.protocol import (
    Explained,
    HoldupName,
    PriorityName,
    QueueEntry,
    Upcoming,
    Victim,
    Waiter,
    WaitersPage,
)

from .refusals import refused
from .remote_run import RemoteRun
from .waiting import Asked

if TYPE_CHECKING:
    from .owner import Owner

NAMED = 3
"""Of those before a request, or on their way out for it; the rest is counted."""

_PRIORITIES: dict[Priority, PriorityName] = {
    Priority.LOW: "low",
    Priority.NORMAL: "normal",
    Priority.HIGH: "high",
}


def queue(owner: Owner, now: float) -> list[QueueEntry]:
    """In the order of the queue. Call it, like all here, in the owner's turn."""
    return [_entry(owner, queued, now) for queued in owner.planner.entries(now)]


def waiters(owner: Owner, preset: PresetName, *, limit: int, offset: int) -> WaitersPage:
    """One page of those who wait for `preset`, in the order in which they will be served."""
    now = owner.clock()
    count, page = owner.planner.waiters(preset, now, offset=offset, limit=limit)
    items = [_waiter(owner, told) for told in page]
    return WaitersPage(preset, count, items, _upcoming(owner, preset, now))


def _upcoming(owner: Owner, preset: PresetName, now: float) -> Upcoming:
    told = owner.planner.next_for(preset, now)
    holdup = None if told.holdup is None else cast(HoldupName, told.holdup.value)
    words = "" if told.refusal is None else refused(told.refusal, preset).message
    return Upcoming(told.seconds, holdup, told.makes_way, words, told.failed)


def explained(owner: Owner, request: RequestId) -> Explained | None:
    """None for one that neither waits nor holds a lease."""
    asked = owner.waiting.get(request)
    if asked is None:
        return None
    if asked.run is not None:
        return _answering(owner, request, asked)
    now = owner.clock()
    told = owner.planner.explain(request, now)
    return None if told is None else _waiting(owner, asked, told, now)


def _waiting(owner: Owner, asked: Asked, told: Explanation, now: float) -> Explained:
    return Explained(
        state="waiting",
        why=_why(owner, told),
        request=asked.text,
        preset=told.preset,
        tenant=told.tenant,
        kind=told.kind.value,
        priority=_PRIORITIES[told.priority],
        waited=told.waited,
        holdup=cast(HoldupName, told.holdup.value),
        turn=told.turn,
        position=told.position,
        ahead=[_entry(owner, queued, now) for queued in told.ahead],
        victims=_victims(owner, told.victims),
        drain_in=told.drain_in,
        seconds=told.seconds,
    )


def _answering(owner: Owner, request: RequestId, asked: Asked) -> Explained:
    run = asked.run
    assert run is not None
    if isinstance(run, RemoteRun):
        instance = owner.planner.remotes.get(PresetName(run.spec.preset))
    else:
        instance = owner.planner.instances.get(run.instance)
    abandoned = instance is not None and request in instance.abandoned
    answering = max(0.0, owner.clock() - asked.granted_at)
    if isinstance(run, RemoteRun):
        why = f"the remote server of '{run.spec.preset}' has been answering it for "
        why += _about(answering)
    elif instance is None:
        why = f"instance {run.instance}, which answered it, has ended"
    elif asked.kind is Kind.GET and request not in instance.looks:
        why = f"its time to look at instance {run.instance} is over"
    elif abandoned:
        why = f"its client has left; instance {run.instance} still works on it"
    else:
        does = "has let it look" if asked.kind is Kind.GET else "has been answering it"
        why = f"instance {run.instance} of '{run.spec.preset}' {does} for {_about(answering)}"
    return Explained(
        state="abandoned" if abandoned else "answering",
        why=why,
        request=asked.text,
        preset=run.spec.preset,
        tenant=asked.tenant,
        kind=asked.kind.value,
        priority=_PRIORITIES[asked.priority],
        waited=max(0.0, asked.granted_at - asked.arrived),
        instance=run.instance,
        answering=answering,
    )


def _waiter(owner: Owner, told: Explanation) -> Waiter:
    asked = owner.waiting.get(told.request)
    return Waiter(
        position=told.position,
        request=asked.text if asked is not None else "",
        tenant=told.tenant,
        kind=told.kind.value,
        priority=_PRIORITIES[told.priority],
        waited=told.waited,
        seconds=told.seconds,
    )


def _entry(owner: Owner, queued: QueuedPreset, now: float) -> QueueEntry:
    return QueueEntry(
        preset=queued.preset,
        waiters=queued.waiters,
        oldest=max(0.0, now - queued.oldest),
        holdup=cast(HoldupName, queued.holdup.value),
        seconds=queued.seconds,
        victims=_victims(owner, queued.victims),
        drain_in=queued.drain_in,
    )


def _victims(owner: Owner, victims: Iterable[InstanceId]) -> list[Victim]:
    living = owner.planner.instances
    return [Victim(number, living[number].preset.name) for number in victims if number in living]


# In words -----------------------------------------------------------------------------------


def _why(owner: Owner, told: Explanation) -> str:
    why = _held_up(owner, told)
    before = told.position - 1
    if before:
        why += f"; {_count(before, 'request')} for the same model {_stand(before)} before it"
    if told.seconds is not None:
        why += f"; it is served in about {_about(told.seconds)}"
    return why


def _held_up(owner: Owner, told: Explanation) -> str:
    match told.holdup:
        case Holdup.TURN:
            before = told.turn - 1
            return (
                f"it waits for its turn: {_count(before, 'model')} {_is(before)} to be loaded "
                f"before it ({_ahead(told.ahead, before)})"
            )
        case Holdup.LOADER:
            return f"its model is the next to be loaded, when {_loads(owner)} has ended"
        case Holdup.ROOM:
            return f"its model is the next to be loaded; {_leaving(owner, told.victims)}"
        case Holdup.BUSY:
            return (
                "its model is the next to be loaded; every model that could make way is answering"
                f"{_drained(owner, told)}"
            )
        case Holdup.LOAD:
            return f"its model is being loaded{_progress(owner, told.preset)}"
        case Holdup.MEASURING:
            return "what its model takes in memory is being measured; others are loaded meanwhile"
        case Holdup.MEMORY:
            return (
                "programs other than Corral use the memory that its model needs; others are loaded "
                "meanwhile"
            )
        case Holdup.DETACHED:
            return (
                "every model that could make way is answering, and goes on: the clients that wait "
                "for this one have lost their connection; others are loaded meanwhile"
            )
        case Holdup.SLOT:
            is_there = "runs elsewhere" if told.preset in owner.planner.remotes else "is loaded"
            return f"its model {is_there} and {_full(owner, told.preset)}"


def _ahead(ahead: tuple[QueuedPreset, ...], before: int) -> str:
    named = [f"'{each.preset}', {_count(each.waiters, 'waiter')}" for each in ahead[:NAMED]]
    return "; ".join(named) + (f"; and {before - NAMED:,} more" if before > NAMED else "")


def _loads(owner: Owner) -> str:
    loading = [
        f"'{instance.preset.name}'{_progress(owner, instance.preset.name)}"
        for instance in owner.planner.instances.values()
        if instance.state is State.LOADING
    ]
    return f"the load of {' and '.join(loading[:NAMED])}" if loading else "another load"


def _progress(owner: Owner, preset: PresetName) -> str:
    for run in owner.runs.values():
        if run.spec.preset == preset and run.progress is not None:
            return f" ({run.progress:.0%})"
    return ""


def _leaving(owner: Owner, victims: tuple[InstanceId, ...]) -> str:
    leaving = [_leaves(owner, number) for number in victims if number in owner.planner.instances]
    named = " and ".join(leaving[:NAMED]) or "room is being made"
    return named + (f" and {len(leaving) - NAMED} more" if len(leaving) > NAMED else "")


def _leaves(owner: Owner, number: InstanceId) -> str:
    instance = owner.planner.instances[number]
    name = f"'{instance.preset.name}' (instance {number})"
    if instance.state is State.STOPPING or not instance.leases:
        return f"{name} makes way for it"
    return f"{name} makes way for it after {_count(len(instance.leases), 'answer')} under way"


def _drained(owner: Owner, told: Explanation) -> str:
    names = [f"'{victim.preset}'" for victim in _victims(owner, told.victims)]
    if told.drain_in is None:
        return ""
    who = " and ".join(names[:NAMED]) or "one of them"
    take = "take" if len(names) > 1 else "takes"
    return f"; {who} {take} no new request in {_about(told.drain_in)} at the latest"


def _full(owner: Owner, preset: PresetName) -> str:
    remote = owner.planner.remotes.get(preset)
    instances = owner.planner.instances_of(preset) if remote is None else [remote]
    answering = sum(len(instance.leases) for instance in instances)
    return f"answers {_count(answering, 'request')}, as many as it may at a time"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _stand(number: int) -> str:
    return "stands" if number == 1 else "stand"


def _about(seconds: float) -> str:
    return f"{max(0, round(seconds)):,} s"
