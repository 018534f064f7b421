"""Step by step, what a preset would take with a larger context or more layers on devices: in words
and widths, for its form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from models_registry.admin.base import mebibytes
from models_registry.ports import DeviceRoom, FitAnswer, FitLadders, FitStep


@dataclass(frozen=True, slots=True)
class Taken:
    """What a step takes of a device: in words, in percent of all of it, and whether it is too much
    even with all other models gone."""

    device: str
    size: str
    percent: float
    over: bool


@dataclass(frozen=True, slots=True)
class StepShown:
    """`verdict` in words, `colour` of its badge. `set`: this is what the form stands for."""

    at: int
    label: str
    verdict: str
    colour: str
    taken: list[Taken]
    set: bool


@dataclass(frozen=True, slots=True)
class RoomShown:
    """A device, in percent: what is never this preset's, what other models hold now, and in words
    what is free."""

    device: str
    outside: float
    others: float
    told: str


def ladders_shown(answer: FitAnswer) -> dict[str, Any]:
    """For the template; nothing of it where there are no steps."""
    found = answer.ladders
    if found is None or not found.contexts or not found.rooms:
        return {}
    rooms = {room.device: room for room in found.rooms}
    context = answer.now.context or answer.empty.context
    set_at = max((step.at for step in found.contexts if step.at <= context), default=0)
    contexts = [
        _step(step, _("%(count)s tokens") % {"count": f"{step.at:,}"}, rooms, step.at == set_at)
        for step in found.contexts
    ]
    layers = [_layers_step(step, answer, rooms) for step in found.layers]
    return {
        "contexts": contexts,
        "set": next((n for n, step in enumerate(contexts) if step.set), 0),
        "layers": layers,
        "rooms": [_room(room) for room in found.rooms],
        "limits": _limits(found),
    }


def _layers_step(step: FitStep, answer: FitAnswer, rooms: dict[str, DeviceRoom]) -> StepShown:
    layers = answer.now.layers or answer.empty.layers
    is_set = step.at == sum(layers.values())
    return _step(step, _("%(count)s layers") % {"count": step.at}, rooms, is_set)


def _step(step: FitStep, label: str, rooms: dict[str, DeviceRoom], is_set: bool) -> StepShown:
    verdict, colour = _verdict(step)
    return StepShown(
        step.at,
        label,
        verdict,
        colour,
        [
            Taken(
                device,
                mebibytes(size),
                _percent(size, rooms[device].total),
                size > rooms[device].empty,
            )
            for device, size in step.bytes.items()
            if device in rooms
        ],
        is_set,
    )


def _verdict(step: FitStep) -> tuple[str, str]:
    if step.now:
        return _("fits now"), "good"
    if step.empty:
        return _("fits when others make way"), "warn"
    return _("does not fit"), "bad"


def _room(room: DeviceRoom) -> RoomShown:
    return RoomShown(
        room.device,
        _percent(room.total - room.empty, room.total),
        _percent(room.empty - min(room.now, room.empty), room.total),
        _("%(now)s free now, %(empty)s with all other models gone, of %(total)s")
        % {
            "now": mebibytes(room.now),
            "empty": mebibytes(room.empty),
            "total": mebibytes(room.total),
        },
    )


def _limits(found: FitLadders) -> list[str]:
    """Where the context ends, and what it ends at."""
    told = []
    now = [step for step in found.contexts if step.now]
    empty = [step for step in found.contexts if step.empty]
    for text, fitting in (
        (_("The largest context that fits now: %(context)s."), now),
        (_("The largest with all other models gone: %(context)s."), empty),
    ):
        largest = f"{max(step.at for step in fitting):,}" if fitting else _("none")
        told.append(text % {"context": largest})
    beyond = next((step for step in found.contexts if not step.empty), None)
    if beyond is not None:
        told += _short(beyond, found.rooms)
    return told


def _short(step: FitStep, rooms: list[DeviceRoom]) -> list[str]:
    return [
        _("With %(context)s tokens %(device)s lacks %(size)s.")
        % {
            "context": f"{step.at:,}",
            "device": room.device,
            "size": mebibytes(step.bytes[room.device] - room.empty),
        }
        for room in rooms
        if step.bytes.get(room.device, 0) > room.empty
    ]


def _percent(size: int, total: int) -> float:
    return round(max(0.0, min(100.0, 100 * size / total)), 3) if total else 0.0
