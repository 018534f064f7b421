"""Choosing a victim: who never is one (V1), and who goes first (V2)."""

from __future__ import annotations

from collections.abc import Iterable

from .instances import Instance
from .states import SETTLED, State
from .values import InstanceId
from .wait_queue import Entry, WaitQueue

# V1: never --------------------------------------------------------------------


def is_busy(instance: Instance) -> bool:
    """V1: somebody reads what it answers. Abandoned leases alone do not protect."""
    return instance.busy


def is_unsettled(instance: Instance) -> bool:
    """V1: neither loaded nor sleeping, so it is loading or leaving already."""
    return instance.state not in SETTLED


def is_pinned(instance: Instance) -> bool:
    """V1."""
    return instance.preset.pinned


def is_waited_for_first(instance: Instance, entry: Entry, queue: WaitQueue) -> bool:
    """V1: its own entry is the one room is made for, or ahead of it: a sleeper to be woken, or one
    full of abandoned leases. Else two presets would evict each other in turn."""
    own = queue.entries.get(instance.preset.name)
    return own is not None and own.place <= entry.place


def may_be_evicted(instance: Instance, entry: Entry, queue: WaitQueue) -> bool:
    """V1: none of the reasons to stay."""
    return not (
        is_busy(instance)
        or is_unsettled(instance)
        or is_pinned(instance)
        or is_waited_for_first(instance, entry, queue)
    )


# A3: loads that nobody wants any more -----------------------------------------


def is_unwanted_load(instance: Instance, queue: WaitQueue) -> bool:
    """A3: a load or wake under way whose waiters have all left. It is finished, unless the head
    needs its slot or its loader."""
    return (
        instance.state is State.LOADING
        and instance.preset.name not in queue.entries
        and not instance.busy
        and not instance.preset.pinned
    )


# V2: who goes first -----------------------------------------------------------


def eviction_order(instance: Instance) -> tuple[int, float, InstanceId]:
    """V2: strictly least recently used, within these classes: a load that nobody wants (A3); one
    that nobody wanted any more when it was done; a sleeper; an idle one; one that works for nobody
    (only abandoned leases), so that an answer under way is lost last."""
    if not instance.idle:
        rank = 4
    elif instance.state is State.LOADING:
        rank = 0
    elif instance.unwanted:
        rank = 1
    elif instance.state is State.SLEEPING:
        rank = 2
    else:
        rank = 3
    return rank, instance.last_used, instance.id


def choose_victim(instances: Iterable[Instance], entry: Entry, queue: WaitQueue) -> Instance | None:
    """The one instance to go so that `entry` may start; None when nothing may go."""
    candidates = (
        instance
        for instance in instances
        if may_be_evicted(instance, entry, queue) or is_unwanted_load(instance, queue)
    )
    return min(candidates, key=eviction_order, default=None)
