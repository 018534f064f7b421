"""Puts measurements on their queue: what is due, and what a person asks for."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from models_registry import measurements
from models_registry.engines import EngineKind
from models_registry.jobs import QUEUE_ERRORS, measures
from models_registry.launch import LaunchSpec, launch_spec_of
from models_registry.models import Preset
from models_registry.ports import SchedulerRefused, SchedulerUnavailable
from scheduler import tasks

WAITED_FOR = 10
"""The priority of a measurement for which a request waits; others have none."""


class QueueAway(Exception):
    """The jobs' queue cannot be reached; what waits to be put there is tried again later."""


def order_due(specs: Sequence[LaunchSpec]) -> list[str]:
    """Each new, retried or lost measurement once; returns their fingerprints. Raises QueueAway."""
    try:
        due = measurements.due(specs, queue_is_empty=measures.pending_count() == 0)
        for fingerprint in due:
            tasks.measure(fingerprint)
    except QUEUE_ERRORS as failure:
        raise QueueAway(f"the queue of measurements: {failure}") from failure
    return due


def order_first(specs: Sequence[LaunchSpec]) -> None:
    """Somebody waits for these: their measurements go before all others. Raises QueueAway."""
    try:
        for spec in specs:
            tasks.measure(spec.memory_fingerprint, priority=WAITED_FOR)
    except QUEUE_ERRORS as failure:
        raise QueueAway(f"the queue of measurements: {failure}") from failure


def order_again(name: str) -> None:
    """Measure the preset `name` as it is now, known or not. Raises SchedulerRefused when it cannot
    be started, SchedulerUnavailable when the queue is away."""
    preset = Preset.objects.select_related("model_file").filter(name=name).first()
    if preset is None:
        raise SchedulerRefused(f"no model is called {name!r}", "model_not_found")
    spec = launch_spec_of(preset)
    if preset.engine != EngineKind.LLAMA_SERVER:
        raise SchedulerRefused(
            f"{name} cannot be measured: its engine is {preset.engine}", "invalid_request"
        )
    if not spec.memory_fingerprint:
        why = spec.problem or "it takes nothing of this machine"
        raise SchedulerRefused(f"{name} cannot be measured: {why}", "preset_invalid")
    measurements.order(spec)
    transaction.on_commit(lambda: _put(spec.memory_fingerprint))


def _put(fingerprint: str) -> None:
    try:
        tasks.measure(fingerprint)
    except QUEUE_ERRORS as failure:
        raise SchedulerUnavailable(f"the queue of measurements cannot be reached: {failure}") from (
            failure
        )
