"""The live side of presets for the admin's pages: asked of the scheduler, never stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from models_registry import ports
from models_registry.admin.base import badge, mebibytes
from models_registry.admin.state_words import holdup_words, state_word
from models_registry.ports import PresetStatus

UNLOADED = PresetStatus(state="unloaded")

_COLOURS = {
    "loaded": "good",
    "remote": "good",
    "loading": "busy",
    "draining": "warn",
    "stopping": "warn",
    "unknown": "warn",
}


@dataclass(frozen=True, slots=True)
class LiveStatuses:
    """What the scheduler said, or in `away` why it said nothing."""

    by_preset: Mapping[str, PresetStatus] = field(default_factory=dict)
    away: str = ""

    def of(self, preset: str) -> PresetStatus:
        if self.away:
            return PresetStatus(state="unknown")
        return self.by_preset.get(preset, UNLOADED)


def live_statuses() -> LiveStatuses:
    """One question for all presets. A page opens all the same when nobody answers."""
    try:
        return LiveStatuses(by_preset=ports.scheduler().statuses())
    except (ports.SchedulerUnavailable, ports.SchedulerRefused) as error:
        return LiveStatuses(
            away=_("The scheduler does not answer, so states are unknown: %(error)s")
            % {"error": error}
        )


def state_text(status: PresetStatus) -> str:
    words = [state_word(status.state)]
    if status.state == "loading" and status.progress is not None:
        words[0] = _("loading %(progress)s") % {"progress": f"{status.progress:.0%}"}
    if status.leases:
        words.append(_("%(leases)s answering") % {"leases": status.leases})
    if status.waiters:
        words.append(
            _("%(waiters)s waiting") % {"waiters": status.waiters}
            + (f": {holdup_words(status.holdup)}" if status.holdup else "")
        )
    return ", ".join(words)


def badges(status: PresetStatus) -> SafeString:
    """For a list's cell and a page's head: the state, and what is out of order."""
    told = [badge(state_text(status), _COLOURS.get(status.state, ""))]
    if status.stale:
        told.append(badge(_("stale"), "warn"))
    if status.problem:
        told.append(badge(_("cannot be started"), "bad"))
    if status.failure:
        failed = _("left alone") if status.state == "remote" else _("last load failed")
        told.append(badge(failed, "bad"))
    return format_html_join(" ", "{}", ((each,) for each in told))


def saved_told(status: PresetStatus) -> str:
    """What is saved of its conversations; empty where nothing is, nor was."""
    saved = status.saved
    if saved is None:
        return ""
    words = _("%(files)s in %(bytes)s") % {"files": saved.files, "bytes": mebibytes(saved.bytes)}
    if saved.hits:
        words += _("; %(hits)s came back and were spared %(seconds)s s of reading") % {
            "hits": saved.hits,
            "seconds": f"{saved.seconds:,.1f}",
        }
    return f"{words}."


_REASONS = {
    "failed_to_load": gettext_lazy("it ended before it was ready"),
    "out_of_memory": gettext_lazy("there was not enough memory"),
    "upstream_unavailable": gettext_lazy(
        "its server failed several times in a row, and is left alone for now"
    ),
}
"""The codes that the scheduler writes before a child's last words."""


def failure_told(status: PresetStatus) -> str:
    """Why the last load failed, in words; empty when it did not."""
    code, colon, words = status.failure.partition(":")
    if code not in _REASONS:
        return status.failure
    ended = f" ({status.exit})" if status.exit else ""
    return f"{_REASONS[code]}{ended}{colon if words.strip() else ''}{words.rstrip()}"
