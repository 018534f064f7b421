"""Buttons and actions of presets: what a person can ask of the scheduler. They change no state of
their own; the scheduler's answer becomes the message."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from models_registry import ports, upstream_trying
from models_registry.admin import live
from models_registry.errors import ManagementRefused
from models_registry.models import Preset


@dataclass(frozen=True, slots=True)
class Wish:
    """`ask` puts it to the scheduler; `done` is what to say when it agreed, and `idle`, if there is
    such an answer, when it found nothing to do."""

    label: str | Promise
    ask: Callable[[ports.Scheduler, str], object]
    done: str | Promise
    idle: str | Promise = ""


WISHES = {
    "load": Wish(
        gettext_lazy("Load"),
        lambda scheduler, name: scheduler.load(name),
        gettext_lazy("is being loaded"),
    ),
    "unload": Wish(
        gettext_lazy("Unload"),
        lambda scheduler, name: scheduler.unload(name),
        gettext_lazy("is being unloaded"),
        idle=gettext_lazy("is not loaded"),
    ),
    "apply": Wish(
        gettext_lazy("Apply now"),
        lambda scheduler, name: scheduler.apply(name),
        gettext_lazy("drains now, and runs with its new options when it is next asked for"),
    ),
    "measure": Wish(
        gettext_lazy("Measure"),
        lambda scheduler, name: scheduler.measure(name),
        gettext_lazy("is measured anew"),
    ),
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
            told.add(
                messages.ERROR,
                _("%(name)s: the scheduler does not answer: %(error)s")
                % {"name": preset.name, "error": error},
            )
            break
    told.send(request)


def _ask(told: Told, wish: Wish, name: str) -> None:
    try:
        answer = wish.ask(ports.scheduler(), name)
    except ports.SchedulerRefused as error:
        told.add(messages.ERROR, f"{name}: {error}")
    else:
        if wish.idle and not answer:
            told.add(messages.INFO, _("%(name)s %(done)s.") % {"name": name, "done": wish.idle})
        else:
            told.add(messages.SUCCESS, _("%(name)s %(done)s.") % {"name": name, "done": wish.done})


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
                messages.add_message(
                    request, level, _("So it is with %(more)s more.") % {"more": more}
                )


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
    reason = "pinned" if pinned else "unpinned"
    word = _("pinned") if pinned else _("unpinned")
    told = Told()
    meaning = _("never evicted for another model") if pinned else _("may be evicted again")
    with transaction.atomic():
        keys = [preset.pk for preset in presets]
        for row in Preset.objects.select_for_update().filter(pk__in=keys):
            if row.pinned == pinned:
                told.add(
                    messages.INFO,
                    _("%(name)s was %(word)s already.") % {"name": row.name, "word": word},
                )
                continue
            row.pinned = pinned
            row._change_reason = reason  # type: ignore[attr-defined]
            row.save(update_fields=["pinned"])
            told.add(
                messages.SUCCESS,
                _("%(name)s is %(word)s: %(meaning)s.")
                % {"name": row.name, "word": word, "meaning": meaning},
            )
    told.send(request)
    if live.live_statuses().away:
        messages.warning(
            request, _("The scheduler does not answer: it sees the change when it is back.")
        )
