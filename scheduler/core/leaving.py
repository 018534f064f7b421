"""How an instance goes: drained, asked, killed. Each decision is made in one place, which also
changes the state."""

from __future__ import annotations

from .decisions import AskExit, Decision, Drain, Figures, Kill, Reason, Undrain
from .instances import Instance
from .states import Cue, State
from .values import PresetName


def drain(instance: Instance, reason: Reason, figures: Figures = ()) -> Drain:
    """It keeps its leases and takes no new one. Said again when the reason changes."""
    if instance.state is not State.DRAINING:
        instance.advance(Cue.DRAIN)
    instance.reason = reason
    return Drain(instance.id, reason, figures=figures)


def drain_for(instance: Instance, preset: PresetName, figures: Figures) -> Drain:
    """A6: so that `preset` may load. Said again when it passes to another one (A3)."""
    if instance.state is not State.DRAINING:
        instance.advance(Cue.DRAIN)
    instance.reason, instance.for_preset = Reason.EVICTED, preset
    return Drain(instance.id, Reason.EVICTED, preset, figures)


def undrain(instance: Instance) -> Undrain:
    instance.undrain()
    instance.reason = instance.for_preset = None
    return Undrain(instance.id, Reason.NO_LONGER_NEEDED)


def ask_exit(
    instance: Instance,
    reason: Reason,
    now: float,
    for_preset: PresetName | None = None,
    figures: Figures = (),
) -> AskExit | Kill:
    """First rung of the ladder; it is the only one for a child that does not read its stdin yet,
    and for a preset that gives no time."""
    patience = instance.preset.stop_timeout_seconds
    if instance.child is State.LOADING or patience <= 0:
        return kill(instance, reason, now, for_preset, figures)
    instance.advance(Cue.STOP)
    instance.reason, instance.for_preset = reason, for_preset
    instance.left_at, instance.kill_at = now, now + patience
    return AskExit(instance.id, reason, for_preset, figures)


def kill(
    instance: Instance,
    reason: Reason,
    now: float,
    for_preset: PresetName | None = None,
    figures: Figures = (),
) -> Kill:
    instance.advance(Cue.STOP)
    instance.reason, instance.for_preset = reason, for_preset
    instance.left_at, instance.kill_at = now, None
    return Kill(instance.id, reason, for_preset, figures)


def leave(
    instance: Instance, reason: Reason, now: float, figures: Figures = ()
) -> AskExit | Kill | Drain:
    """After the leases that somebody reads. What works for nobody is asked at once, like a victim:
    a child that hangs would never end an abandoned lease."""
    if instance.busy:
        return drain(instance, reason, figures)
    return ask_exit(instance, reason, now, figures=figures)


def settle(instance: Instance, now: float) -> list[Decision]:
    """A drain has come to its end when nobody reads any more; an edited preset's instance goes
    then too, and who waits gets the new one."""
    if instance.busy:
        return []
    if instance.state is State.DRAINING:
        reason = instance.reason or Reason.UNLOADED
        for_preset = instance.for_preset if reason is Reason.EVICTED else None
        return [ask_exit(instance, reason, now, for_preset)]
    if instance.stale and not instance.leaving:
        return [ask_exit(instance, Reason.REPLACED, now)]
    return []


def kill_overdue(instance: Instance, now: float) -> list[Decision]:
    """Second rung: it was asked, and its preset's stop time-out has passed."""
    if instance.kill_at is None or instance.kill_at > now:
        return []
    return [kill(instance, Reason.STOP_TIMEOUT, now, instance.for_preset)]
