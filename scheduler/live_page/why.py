"""Why: a waiting request, or something that happened, with the figures that the scheduler used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from models_registry.admin.memory_shown import place, tokens
from scheduler.models import DecisionRecord, InstanceRecord
from scheduler.protocol import Explained, Refused

from .timeline import clock
from .words import (
    decision_told,
    estimate_told,
    figure_named,
    holdup_told,
    kind_told,
    lasting,
    mebibytes,
    reason_told,
)

MOST_STEPS = 20
"""Decisions about one instance that are told."""


@dataclass(frozen=True, slots=True)
class Why:
    """`told` are sentences or short paragraphs, `figures` pairs of words."""

    title: str
    told: list[str]
    figures: list[tuple[str, str]] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    problem: str = ""


def why_request(explained: Explained) -> Why:
    named = {"request": explained.request, "preset": explained.preset}
    figures = [
        (_("Model"), explained.preset),
        (_("Team"), explained.tenant),
        (_("Priority"), explained.priority),
        (_("Waited"), lasting(explained.waited)),
    ]
    optional = (
        (_("Place among those who wait for this model"), explained.position),
        (_("Turn of its model (1: the next to be loaded, 0: needs no load)"), explained.turn),
        (_("Instance that answers"), explained.instance),
    )
    figures += [(name, f"{value:,}") for name, value in optional if value is not None]
    if explained.seconds is not None:
        figures.append((_("Estimate until it is served"), estimate_told(explained.seconds)))
    times = (
        (_("A busy model takes no new request for it, at the latest in"), explained.drain_in),
        (_("Has been answered for"), explained.answering),
    )
    figures += [(name, lasting(value)) for name, value in times if value is not None]
    if explained.victims:
        victims = ", ".join(f"{each.preset} ({each.instance})" for each in explained.victims)
        figures.append((_("Makes way for it"), victims))
    ahead = [
        _("Before it: %(preset)s, %(count)s waiting: %(reason)s")
        % {"preset": each.preset, "count": each.waiters, "reason": holdup_told(each)}
        for each in explained.ahead
    ]
    told = f"{explained.why[:1].upper()}{explained.why[1:]}."
    return Why(_("Request %(request)s for %(preset)s") % named, [told], figures, ahead)


def why_not_known(request: str, refusal: Refused) -> Why:
    return Why(_("Request %(request)s") % {"request": request}, [], problem=str(refusal.message))


def why_decision(decision: DecisionRecord) -> Why:
    title = f"{kind_told(decision.kind, decision.reason).capitalize()}: {decision.preset}"
    told = decision_told(decision.kind, decision.preset, decision.reason, decision.figures)
    figures = [(_("At"), _moment(decision.at)), (_("Reason"), reason_told(decision.reason))]
    figures += [
        (figure_named(name), _figure(name, value)) for name, value in _flat(decision.figures)
    ]
    return Why(title, [told], figures)


def why_instance(row: InstanceRecord, *, decisions: bool) -> Why:
    told = []
    where = place(row.placement or None, row.layers)  # type: ignore[arg-type]
    if where:
        told.append(
            _("It went %(place)s, with a context of %(context)s.")
            % {"place": where, "context": tokens(row.context)}
        )
    if row.ended_at is not None:
        named = {"at": _moment(row.ended_at), "reason": reason_told(row.reason)}
        told.append(_("It ended at %(at)s: %(reason)s.") % named)
    figures = [(_("Started"), _moment(row.started_at))]
    if row.loaded_at is not None:
        figures.append((_("Loaded"), _moment(row.loaded_at)))
    for device in {**row.predicted, **row.actual}:
        predicted, actual = row.predicted.get(device, 0), row.actual.get(device)
        words = _("predicted %(predicted)s") % {"predicted": mebibytes(predicted)}
        if actual is not None:
            words += ", " + _("reported %(actual)s") % {"actual": mebibytes(actual)}
        figures.append((_("Memory on %(device)s") % {"device": device}, words))
    if row.exit_code is not None:
        figures.append((_("Exit code"), str(row.exit_code)))
    if row.signal is not None:
        figures.append((_("Signal"), str(row.signal)))
    steps = []
    if decisions:
        steps = [
            f"{clock(each.at)} {decision_told(each.kind, each.preset, each.reason, each.figures)}"
            for each in row.decisions.order_by("id")[:MOST_STEPS]
        ]
    title = _("Instance %(number)s of %(preset)s") % {"number": row.pk, "preset": row.preset}
    return Why(title, told, figures, steps)


def _flat(figures: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from ((f"{name}_{key}", each) for key, each in value.items())
        else:
            yield name, value


_OF_BYTES = ("needs_", "maps_", "available_", "frees_", "over_", "short_", "granted_")
_OF_SECONDS = ("idle_for", "asked_every", "loaded_for", "head_for", "free_in", "retry_after")


def _figure(name: str, value: Any) -> str:
    if isinstance(value, int) and name.startswith(_OF_BYTES):
        return mebibytes(value)
    if isinstance(value, int | float) and name in _OF_SECONDS:
        return lasting(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d} {clock(moment)}"
