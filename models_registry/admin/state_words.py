"""What pages call the states of presets and instances, and what waiters wait for."""

from __future__ import annotations

from django.utils.translation import gettext, gettext_lazy

_STATES = {
    "unloaded": gettext_lazy("unloaded"),
    "queued": gettext_lazy("queued"),
    "loading": gettext_lazy("loading"),
    "loaded": gettext_lazy("loaded"),
    "sleeping": gettext_lazy("sleeping"),
    "draining": gettext_lazy("draining"),
    "stopping": gettext_lazy("stopping"),
    "remote": gettext_lazy("remote"),
    "failed": gettext_lazy("failed"),
    "unknown": gettext_lazy("unknown"),
}


def state_word(state: str) -> str:
    return str(_STATES.get(state, state))


def holdup_words(words: str) -> str:
    """The scheduler says them in English; they are marked where it does."""
    return gettext(words) if words else ""
