"""Buttons and actions of presets: what a person can ask of the scheduler. They change no state of
their own; the scheduler's answer becomes the message."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest

from models_registry import ports, upstream_trying
from models_registry.admin import live
from models_registry.errors import ManagementRefused
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


TRY = "try"
"""Asks no scheduler, but the remote server of a preset."""


def ask(request: HttpRequest, verb: str, presets: Iterable[Preset]) -> None:
    """TRY, or one of WISHES or PINS for each of them."""
    if verb == TRY:
        _try(request, presets)
        return
    if verb in PINS:
        _pin(request, presets, pinned=PINS[verb])
        return
    told = Told()
    for preset in presets:
        try:
            _ask(told, WISHES[verb], preset.name)
        except ports.SchedulerUnavailable as error:
            # Nobody will answer for the others either, and each question waits.
            told.add(messages.ERROR, f"{preset.name}: the scheduler does not answer: {error}")
            break
    told.send(request)


def _ask(told: Told, wish: Wish, name: str) -> None:
    try:
        answer = wish.ask(ports.scheduler(), name)
    except ports.SchedulerRefused as error:
        told.add(messages.ERROR, f"{name}: {error}")
    else:
        if wish.idle and not answer:
            told.add(messages.INFO, f"{name} {wish.idle}.")
        else:
            told.add(messages.SUCCESS, f"{name} {wish.done}.")


class Told:
    """What is said of one row after the other; of many alike, the first ones and how many more."""

    def __init__(self) -> None:
        self._texts: dict[int, list[str]] = {}

    def add(self, level: int, text: str) -> None:
        self._texts.setdefault(level, []).append(text)

    def send(self, request: HttpRequest) -> None:
        for level, texts in self._texts.items():
            for text in texts[:MOST_TOLD]:
                messages.add_message(request, level, text)
            if (more := len(texts) - MOST_TOLD) > 0:
                messages.add_message(request, level, f"So it is with {more} more.")


def _try(request: HttpRequest, presets: Iterable[Preset]) -> None:
    for preset in presets:
        try:
            messages.info(request, f"{preset.name} {upstream_trying.tried(preset)}")
        except ManagementRefused as refusal:
            messages.error(request, str(refusal))


MOST_TOLD = 10
"""Messages travel in a cookie first, and nobody reads a hundred."""


def _pin(request: HttpRequest, presets: Iterable[Preset], *, pinned: bool) -> None:
    """An edit of the row like any other; the scheduler learns of it as of any other."""
    word = "pinned" if pinned else "unpinned"
    told = Told()
    meaning = "never evicted for another model" if pinned else "may be evicted again"
    with transaction.atomic():
        keys = [preset.pk for preset in presets]
        for row in Preset.objects.select_for_update().filter(pk__in=keys):
            if row.pinned == pinned:
                told.add(messages.INFO, f"{row.name} was {word} already.")
                continue
            row.pinned = pinned
            row._change_reason = word  # type: ignore[attr-defined]
            row.save(update_fields=["pinned"])
            told.add(messages.SUCCESS, f"{row.name} is {word}: {meaning}.")
    told.send(request)
    if live.live_statuses().away:
        messages.warning(
            request, "The scheduler does not answer: it sees the change when it is back."
        )
