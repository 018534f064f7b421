"""A preset's scheduling policy: what its fields may hold, and what counts where they are unset.

Times in seconds. Nothing here reaches the child's command line: an edit counts at once, also for
what runs already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.core.exceptions import ValidationError

if TYPE_CHECKING:
    from models_registry.models import Preset

LONGEST_WAIT = 86_400.0
LONGEST_IDLE = 31_536_000.0
"""A year; whoever means for ever writes NEVER."""
MOST_WAITERS = 1_000_000
LEAST_CONTEXT = 256
"""Tokens: the engine rounds every context up to a multiple of it."""
MOST_CONTEXT = 2**31 - 1
MOST_REPLICAS = 64
NEVER = -1.0
"""As keep-alive: idle for however long, it does not end."""

GATEWAYS_OWN = {
    "stop_timeout": "CORRAL_STOP_TIMEOUT",
    "max_wait": "CORRAL_MAX_WAIT",
    "min_residency": "CORRAL_MIN_RESIDENCY",
    "keep_alive": "CORRAL_MODEL_KEEP_ALIVE",
    "queue_limit": "CORRAL_QUEUE_LIMIT_PER_MODEL",
    "context_cap": "CORRAL_CONTEXT_PER_SLOT",
}
"""Field name to the setting that counts while it is unset."""


def validate_keep_alive(value: float) -> None:
    if value != NEVER and not 0 <= value <= LONGEST_IDLE:
        raise ValidationError(
            f"Write seconds, from 0 to {LONGEST_IDLE:.0f}, or -1: never ended for being idle."
        )


def gateways_own(field: str) -> str:
    """What counts for all presets that leave `field` unset, for people."""
    value = getattr(settings, GATEWAYS_OWN[field])
    if field == "keep_alive" and value is None:
        return "until its room is needed"
    if field == "queue_limit" and value == 0:
        return "no limit of its own"
    return _plain(value)


def _plain(number: float) -> str:
    """30, 0.5, 31536000: as people write it."""
    return f"{number:.12g}"


def policy_errors(preset: Preset) -> dict[str, str]:
    """By field, what is valid by itself and not together."""
    residency, wait = _residency_and_wait(preset)
    if residency <= wait or wait < 0:  # a time below 0 is told by the field itself
        return {}
    stays, waits = _plain(residency), _plain(wait)
    if preset.min_residency is None:
        return {
            "max_wait": f"{waits} is less than the gateway's min residency, {stays} "
            f"(CORRAL_MIN_RESIDENCY): raise it, or set min residency to {waits} or less here."
        }
    if preset.max_wait is None:
        return {
            "min_residency": f"{stays} is more than the gateway's max wait, {waits} "
            f"(CORRAL_MAX_WAIT): lower it, or set max wait to {stays} or more here."
        }
    return {
        "min_residency": f"{stays} is more than max wait, {waits}: lower it, or raise max wait."
    }


def min_residency_seconds(preset: Preset) -> float | None:
    """As it counts; None: the gateway's own. The gateway's max wait may have been lowered after the
    preset was saved: a min residency never counts beyond it."""
    stays, waits = _residency_and_wait(preset)
    return preset.min_residency if stays <= waits else waits


def _residency_and_wait(preset: Preset) -> tuple[float, float]:
    stays, waits = preset.min_residency, preset.max_wait
    return (
        settings.CORRAL_MIN_RESIDENCY if stays is None else stays,
        settings.CORRAL_MAX_WAIT if waits is None else waits,
    )
