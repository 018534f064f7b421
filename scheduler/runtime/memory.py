"""Between the devices as they are read and the core's ledger: what is told, what is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.core.instances import Instance
from scheduler.core.ledger import Device as Held
from scheduler.core.sizes import (
    HOST,
    Bytes,
    DeviceId,
    DeviceReading,
    Grant,
    Kind,
    Need,
    loaded,
    on_each,
)
from scheduler.core.states import LEAVING, SETTLED, State
from scheduler.memory_states import DeviceInstance, DevicesState, DeviceState

from .devices.device import Device

if TYPE_CHECKING:
    from .owner import Owner

MIB = 1 << 20
WORTH_TELLING = 4 * MIB
"""A change of less changes no decision worth a look at the queue."""
WORTH_CORRECTING = 16 * MIB


def readings(devices: Iterable[Device]) -> tuple[DeviceReading, ...]:
    """As the core takes them."""
    return tuple(
        replace(device.reading, stale=device.stale is not None, exclusive=device.kind == "RPC")
        for device in devices
    )


def differ(before: Sequence[DeviceReading], after: Sequence[DeviceReading]) -> bool:
    """By more than what any running program changes all the time."""
    if len(before) != len(after):
        return True
    return any(_differs(one, other) for one, other in zip(before, after, strict=True))


def _differs(one: DeviceReading, other: DeviceReading) -> bool:
    if replace(one, free=0, foreign=None) != replace(other, free=0, foreign=None):
        return True
    if (one.foreign is None) != (other.foreign is None):
        return True
    foreign = abs((one.foreign or 0) - (other.foreign or 0))
    return max(foreign, abs(one.free - other.free)) >= WORTH_TELLING


def corrected(instance: Instance, held: Need, pid: int, devices: Iterable[Device]) -> Need | None:
    """What is to be held instead, None: the same. What the driver shows for the process counts
    where it is more than what its log says: the driver's own share is in it, and a look may have
    begun before the load. Asleep, a process has what is shown of it, and under a lease that
    releases nothing (L8). On the host only of a sleeper: one that is awake holds what its caches
    may grow to."""
    if instance.child not in SETTLED:
        return None
    asleep = instance.child is State.SLEEPING
    if asleep and not instance.idle:
        return None
    own = dict(held.own)
    for device in devices:
        name = device.reading.device
        if name == HOST and not asleep:
            continue
        # Where the driver does not know whose bytes they are, it may not list ours either.
        if device.processes is not None and device.reading.foreign is not None:
            shown = dict(device.processes).get(pid, 0)
            own[name] = shown if asleep else max(shown, own.get(name, 0))
    before = dict(held.own)
    if all(abs(size - before.get(name, 0)) < WORTH_CORRECTING for name, size in own.items()):
        return None
    return Need(tuple((name, size) for name, size in own.items() if size), held.mapped)


def by_device(need: Need) -> dict[str, int]:
    """As the wire and the record have it."""
    return {str(name): size for name, size in on_each(need).items()}


def device_states(owner: Owner) -> DevicesState:
    """Call it in the owner's turn."""
    ledger = owner.planner.ledger
    free, _ = ledger.free()
    return DevicesState(
        [
            _state(owner, device, ledger.devices[name], free[name])
            for device in owner.memory.devices
            if (name := device.reading.device) in ledger.devices
        ]
    )


def _state(owner: Owner, device: Device, held: Held, free: int) -> DeviceState:
    reading = device.reading
    name = reading.device
    instances = [
        each
        for number, instance in sorted(owner.planner.instances.items())
        if (each := _instance(instance, owner.planner.ledger.held[number], name)) is not None
    ]
    going = [i.id for i in owner.planner.instances.values() if i.state in LEAVING]
    total_held = held.limit - held.coming_back - free
    return DeviceState(
        device=name,
        description=device.name,
        kind=device.kind,
        total=reading.total,
        free=reading.free,
        external=held.external,
        held=total_held,
        returning=held.coming_back,
        leaving=dict(owner.planner.ledger.frees(*going)).get(name, 0),
        margin=reading.margin,
        budget=reading.budget,
        available=max(0, free),
        utilisation=device.utilisation,
        temperature=device.temperature,
        power=device.power,
        stale=device.stale,
        warning=device.warning,
        instances=instances,
    )


def _instance(instance: Instance, held: Need, device: DeviceId) -> DeviceInstance | None:
    now, granted = by_device(held), by_device(loaded(instance.grant.need))
    actual = None if instance.allocated is None else by_device(instance.allocated).get(device, 0)
    if not now.get(device) and not granted.get(device) and not actual:
        return None
    return DeviceInstance(
        instance.id, instance.preset.name, now.get(device, 0), granted.get(device, 0), actual
    )


def told(sizes: Bytes) -> str:
    """As a person reads it: `5,120 MiB on CUDA0`."""
    return ", ".join(f"{-(-size // MIB):,} MiB on {device}" for device, size in sizes)


_WHY = {
    Kind.FIXED: "its options say where it goes",
    Kind.WHOLE: "it fits on one device whole",
    Kind.SPREAD: "no device has room for it whole; together they have",
    Kind.PARTIAL: "the devices have room for a part of its layers; the host has the others",
    Kind.HOST: "no device has room for any of its layers",
}


_NO_OTHER = "the host is the only device that it may use"


def why_there(
    grant: Grant, figures: Iterable[tuple[str, object]], *, has_devices: bool = True
) -> str:
    """The reason of a placement, with what there was at that moment (L9). `has_devices`: there are
    others than the host that it might have been put on."""
    if not grant.need:
        return ""
    begin = "available_"
    available = tuple(
        (DeviceId(name.removeprefix(begin)), size)
        for name, size in figures
        if name.startswith(begin) and isinstance(size, int)
    )
    there = f"; there were {told(available)}" if available else ""
    kind = grant.placement.kind
    why = _WHY[kind] if has_devices or kind is not Kind.HOST else _NO_OTHER
    mapped = sum(size for _, size in grant.need.mapped)
    shared = f", {-(-mapped // MIB):,} MiB of that for its mapped file" if mapped else ""
    return f"{why}: it needs {told(tuple(on_each(grant.need).items()))}{shared}{there}"
