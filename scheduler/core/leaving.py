"""How an instance goes: drained, asked, killed. Each decision is made in one place, which also
changes the state."""

from __future__ import annotations

from collections.abc import Iterable

from .decisions import AskExit, Decision, Drain, Kill, Reason, Undrain
from .instances import Instance
from .states import Cue, State
from .values import PresetName


def drain(instance: Instance, reason: Reason) -> Drain:
    """It keeps its leases and takes no new one. Said again when the reason changes."""
    if instance.state is not State.DRAINING:
        instance.advance(Cue.DRAIN)
    instance.reason = reason
    return Drain(instance.id, reason)


def undrain(instance: Instance) -> Undrain:
    instance.undrain()
    instance.reason = None
    return Undrain(instance.id, Reason.NO_LONGER_NEEDED)


def ask_exit(
    instance: Instance, reason: Reason, now: float, for_preset: PresetName | None = None
) -> AskExit | Kill:
    """First rung of the ladder; it is the only one for a child that does not read its stdin yet,
    and for a preset that gives no time."""
    patience = instance.preset.stop_timeout_seconds
    if instance.child is State.LOADING or patience <= 0:
        return kill(instance, reason, for_preset)
    instance.advance(Cue.STOP)
    instance.reason, instance.for_preset = reason, for_preset
    instance.kill_at = now + patience
    return AskExit(instance.id, reason, for_preset)


def kill(instance: Instance, reason: Reason, for_preset: PresetName | None = None) -> Kill:
    instance.advance(Cue.STOP)
    instance.reason, instance.for_preset = reason, for_preset
    instance.kill_at = None
    return Kill(instance.id, reason, for_preset)


def leave(instance: Instance, reason: Reason, now: float) -> AskExit | Kill | Drain:
    """After the leases that somebody reads. What works for nobody is asked at once, like a victim:
    a child that hangs would never end an abandoned lease."""
    return drain(instance, reason) if instance.busy else ask_exit(instance, reason, now)


def kill_overdue(instances: Iterable[Instance], now: float) -> list[Decision]:
    """Second rung: it was asked, and its preset's stop time-out has passed."""
    return [
        kill(instance, Reason.STOP_TIMEOUT, instance.for_preset)
        for instance in instances
        if instance.kill_at is not None and instance.kill_at <= now
    ]


def replace_stale(instances: Iterable[Instance], now: float) -> list[Decision]:
    """An edited preset's instance goes once nobody reads from it; who waits gets the new one."""
    return [
        leave(instance, Reason.REPLACED, now)
        for instance in instances
        if instance.stale and not instance.leaving and not instance.busy
    ]


def stop_drained(instances: Iterable[Instance], now: float) -> list[Decision]:
    """A drain has come to its end when nobody reads any more."""
    return [
        ask_exit(instance, instance.reason or Reason.UNLOADED, now, instance.for_preset)
        for instance in instances
        if instance.state is State.DRAINING and not instance.busy
    ]
