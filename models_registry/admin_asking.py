"""Buttons and actions of presets: what a person can ask of the scheduler. They change no state of
their own; the scheduler's answer becomes the message."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest

from models_registry import live, ports
from models_registry.models import Preset


@dataclass(frozen=True, slots=True)
class Wish:
    """`ask` puts it to the scheduler; `done` is what to say when it agreed, and `idle`, if there is
    such an answer, when it found nothing to do."""

    label: str
    ask: Callable[[ports.Scheduler, str], object]
    done: str
    idle: str = ""


WISHES = {
    "load": Wish("Load", lambda scheduler, name: scheduler.load(name), "is being loaded"),
    "unload": Wish(
        "Unload",
        lambda scheduler, name: scheduler.unload(name),
        "is being unloaded",
        idle="is not loaded",
    ),
    "apply": Wish(
        "Apply now",
        lambda scheduler, name: scheduler.apply(name),
        "drains now, and runs with its new options when it is next asked for",
    ),
    "measure": Wish("Measure", lambda scheduler, name: scheduler.measure(name), "is measured anew"),
}

PINS = {"pin": True, "unpin": False}


def ask(request: HttpRequest, verb: str, presets: Iterable[Preset]) -> None:
    """One of WISHES or PINS for each of them."""
    if verb in PINS:
        _pin(request, presets, pinned=PINS[verb])
        return
    for preset in presets:
        _ask(request, WISHES[verb], preset.name)


def _ask(request: HttpRequest, wish: Wish, name: str) -> None:
    try:
        answer = wish.ask(ports.scheduler(), name)
    except ports.SchedulerUnavailable as error:
        messages.error(request, f"{name}: the scheduler does not answer: {error}")
    except ports.SchedulerRefused as error:
        messages.error(request, f"{name}: {error}")
    else:
        if wish.idle and not answer:
            messages.info(request, f"{name} {wish.idle}.")
        else:
            messages.success(request, f"{name} {wish.done}.")


def _pin(request: HttpRequest, presets: Iterable[Preset], *, pinned: bool) -> None:
    """An edit of the row like any other; the scheduler learns of it as of any other."""
    word = "pinned" if pinned else "unpinned"
    for preset in presets:
        with transaction.atomic():
            row = Preset.objects.select_for_update().get(pk=preset.pk)
            if row.pinned == pinned:
                messages.info(request, f"{row.name} was {word} already.")
                continue
            row.pinned = pinned
            row._change_reason = word  # type: ignore[attr-defined]
            row.save(update_fields=["pinned"])
        meaning = "never evicted for another model" if pinned else "may be evicted again"
        messages.success(request, f"{row.name} is {word}: {meaning}.")
    if live.live_statuses().away:
        messages.warning(
            request, "The scheduler does not answer: it sees the change when it is back."
        )
