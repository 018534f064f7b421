"""The live side of presets for the admin's pages: asked of the scheduler, never stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.utils.html import format_html
from django.utils.safestring import SafeString

from models_registry import ports
from models_registry.ports import PresetStatus

UNLOADED = PresetStatus(state="unloaded")


@dataclass(frozen=True, slots=True)
class LiveStatuses:
    """What the scheduler said, or in `away` why it said nothing."""

    by_preset: Mapping[str, PresetStatus] = field(default_factory=dict)
    away: str = ""

    def of(self, preset: str) -> PresetStatus:
        return self.by_preset.get(preset, UNLOADED)


def live_statuses() -> LiveStatuses:
    """One question for all presets. A page opens all the same when nobody answers."""
    try:
        return LiveStatuses(by_preset=ports.scheduler().statuses())
    except (ports.SchedulerUnavailable, ports.SchedulerRefused) as error:
        return LiveStatuses(away=f"The scheduler does not answer, so states are unknown: {error}")


def state_text(statuses: LiveStatuses, preset: str) -> str:
    """For a list: one short cell."""
    if statuses.away:
        return "unknown"
    status = statuses.of(preset)
    words = [status.state]
    if status.leases:
        words.append(f"{status.leases} answering")
    if status.waiters:
        words.append(f"{status.waiters} waiting")
    if status.failure:
        words.append("last load failed")
    return ", ".join(words)


def page_text(statuses: LiveStatuses, preset: str) -> SafeString:
    """For a preset's own page: its state, and why its last load failed, with the last words."""
    failure = statuses.of(preset).failure
    told = statuses.away or state_text(statuses, preset)
    if not failure:
        return format_html("<span>{}</span>", told)
    return format_html('<span>{}</span><pre style="white-space: pre-wrap">{}</pre>', told, failure)
