"""Sizes, times and reasons in words, for the live page. Pure but for the language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from scheduler.protocol import QueueEntry, Upcoming

MIB = 1 << 20

_HELD_UP = {
    "turn": gettext_lazy("waits for its turn: other models are loaded first"),
    "loader": gettext_lazy("is the next; another load is under way"),
    "room": gettext_lazy("is the next; room is being made"),
    "busy": gettext_lazy("is the next; all that could make way are answering"),
    "memory": gettext_lazy("other programs use the memory that it needs"),
    "detached": gettext_lazy("its clients have gone, and all that could make way are answering"),
    "measuring": gettext_lazy("what it takes is being measured"),
    "load": gettext_lazy("its model is being loaded"),
    "slot": gettext_lazy("its model answers as many as it may at a time"),
}

_WOULD_BE_HELD_UP = {
    "turn": gettext_lazy("other models are loaded first"),
    "loader": gettext_lazy("another load is under way"),
    "room": gettext_lazy("room is made for its model, which is then loaded"),
    "busy": gettext_lazy("all that could make way are answering"),
    "memory": gettext_lazy("other programs use the memory that it needs"),
    "detached": gettext_lazy("its clients have gone, and all that could make way are answering"),
    "measuring": gettext_lazy("what it takes is being measured"),
    "load": gettext_lazy("its model is loaded first"),
    "slot": gettext_lazy("its model answers as many as it may at a time"),
}

_FIGURES = {
    "for": gettext_lazy("For"),
    "idle_for": gettext_lazy("Had been idle for"),
    "asked_every": gettext_lazy("Lately asked for about once in"),
    "loaded_for": gettext_lazy("Had been loaded for"),
    "head_for": gettext_lazy("The other had been the next for"),
    "free_in": gettext_lazy("Thought to be free in"),
    "retry_after": gettext_lazy("May be tried again after"),
    "answers": gettext_lazy("Answers under way"),
    "waiters": gettext_lazy("Requests that waited for it"),
    "requests": gettext_lazy("Requests refused alike"),
    "placement": gettext_lazy("Place"),
    "context": gettext_lazy("Context"),
    "blocked_by": gettext_lazy("In its way"),
    "problem": gettext_lazy("Problem"),
}

_FIGURES_OF_DEVICES = {
    "needs": gettext_lazy("Needed on %(device)s"),
    "available": gettext_lazy("Available after the margin on %(device)s"),
    "maps": gettext_lazy("Mapped from %(device)s"),
    "frees": gettext_lazy("Freed on %(device)s"),
    "over": gettext_lazy("Held beyond the budget on %(device)s"),
    "short": gettext_lazy("Lacking on %(device)s"),
    "granted": gettext_lazy("Granted on %(device)s"),
}

_KINDS = {
    "start": gettext_lazy("load"),
    "wake": gettext_lazy("wake"),
    "drain": gettext_lazy("drain"),
    "undrain": gettext_lazy("drain undone"),
    "ask_exit": gettext_lazy("end"),
    "kill": gettext_lazy("kill"),
    "reject": gettext_lazy("refusal"),
}

_REASONS = {
    "requested": gettext_lazy("a request asked for it"),
    "startup": gettext_lazy("it is loaded at start-up"),
    "evicted": gettext_lazy("its room was needed"),
    "idle": gettext_lazy("its keep-alive had passed"),
    "over_limit": gettext_lazy("a budget was lowered below what was held"),
    "hung": gettext_lazy("it did not answer any more"),
    "replaced": gettext_lazy("its options had changed"),
    "moved": gettext_lazy("it could not wake where it slept"),
    "removed": gettext_lazy("its preset was deleted"),
    "unloaded": gettext_lazy("a person unloaded it"),
    "unwanted": gettext_lazy("nobody waited for it any more, and its room was needed"),
    "stop_timeout": gettext_lazy("it was asked to end, and did not in time"),
    "load_stalled": gettext_lazy("its load made no progress"),
    "shutdown": gettext_lazy("Corral was stopped"),
    "no_longer_needed": gettext_lazy("nobody needed its room any more"),
    "crashed": gettext_lazy("it crashed"),
    "out_of_memory": gettext_lazy("there was not enough memory"),
    "failed_to_load": gettext_lazy("it ended before it was ready"),
    "scheduler_died": gettext_lazy("the scheduler died"),
    "blocked_by_pinned": gettext_lazy("only pinned models stood in its way"),
    "does_not_fit": gettext_lazy("another model would have had to go for it at start-up"),
    "memory_in_use": gettext_lazy("other programs used the memory that it needs"),
    "model_backing_off": gettext_lazy("its load had failed a moment ago"),
    "model_broken": gettext_lazy("its load had failed, and another model would have had to go"),
    "model_load_failed": gettext_lazy("its load failed"),
    "model_not_loaded": gettext_lazy("it was not loaded, and the request might not load it"),
    "model_queue_full": gettext_lazy("as many requests as may wait for it did so"),
    "model_removed": gettext_lazy("it was removed while the request waited"),
    "model_too_large": gettext_lazy("it needs more memory than there is for models"),
    "queue_full": gettext_lazy("too many requests waited already"),
    "queue_timeout": gettext_lazy("it had waited as long as a request may"),
    "tenant_queue_full": gettext_lazy("too many requests of its team waited already"),
    "shutting_down": gettext_lazy("Corral was being stopped"),
    "upstream_unavailable": gettext_lazy("its remote server had failed several times"),
    "preset_invalid": gettext_lazy("its preset cannot be started"),
}


def mebibytes(size: float) -> str:
    return f"{size / MIB:,.0f} MiB"


def on_devices(sizes: Mapping[str, int]) -> str:
    """`5,120 MiB on CUDA0, 300 MiB on Host`; empty for none."""
    return ", ".join(
        _("%(size)s on %(device)s") % {"size": mebibytes(size), "device": device}
        for device, size in sizes.items()
    )


def lasting(seconds: float) -> str:
    """The same as the page's script writes while time passes."""
    whole = max(0, int(seconds))
    if whole < 60:
        return _("%(count)s sec") % {"count": whole}
    if whole < 3600:
        return _("%(count)s min") % {"count": whole // 60}
    if whole < 86400:
        return _("%(count)s hr") % {"count": whole // 3600} + (
            " " + _("%(count)s min") % {"count": whole % 3600 // 60}
        )
    return ngettext("%(count)s day", "%(count)s days", whole // 86400) % {"count": whole // 86400}


def requests(count: int) -> str:
    return ngettext("%(count)s request", "%(count)s requests", count) % {"count": count}


def reason_told(reason: str) -> str:
    return str(_REASONS.get(reason, reason.replace("_", " ")))


def kind_told(kind: str, reason: str = "") -> str:
    if kind in ("ask_exit", "kill") and reason in ("evicted", "unwanted"):
        return _("eviction")
    return str(_KINDS.get(kind, kind.replace("_", " ")))


def described(device: str) -> str:
    """What a device is: a driver's own words, but for the host."""
    return _("main memory") if device == "main memory" else device


def holdup_words(holdup: str) -> str:
    return str(_HELD_UP[holdup])


def estimate_told(seconds: float | None) -> str:
    if seconds is None:
        return _("not known")
    if seconds < 1:
        return _("less than 1 sec")
    return _("about %(time)s") % {"time": lasting(seconds)}


def upcoming_told(coming: Upcoming) -> str:
    """Of a request that came now: how long it would wait, and for what."""
    if coming.refused:
        return _("A request that came now would be refused: %(reason)s.") % {
            "reason": coming.refused
        }
    if coming.holdup is None:
        return _("A request that came now would be answered at once.")
    known = coming.seconds is not None
    named = {
        "time": estimate_told(coming.seconds) if known else _("for how long is not known"),
        "reason": _WOULD_BE_HELD_UP[coming.holdup],
    }
    told = _("A request that came now would wait, %(time)s: %(reason)s.") % named
    if coming.makes_way:
        told += " " + _("%(names)s would make way.") % {"names": ", ".join(coming.makes_way)}
    if coming.failed:
        told += " " + _("The last load has failed, and would be tried again.")
    return told


def figure_named(name: str) -> str:
    """What a figure of the record is called: `needs_CUDA0` is what is needed there."""
    if known := _FIGURES.get(name):
        return str(known)
    kind, _underscore, device = name.partition("_")
    text = _FIGURES_OF_DEVICES.get(kind)
    return name.replace("_", " ") if text is None else text % {"device": device}


def holdup_told(entry: QueueEntry) -> str:
    """What an entry waits for, with who makes way and when."""
    words = holdup_words(entry.holdup) if entry.holdup else ""
    victims = ", ".join(victim.preset for victim in entry.victims)
    if victims:
        words += "; " + _("%(victims)s makes way") % {"victims": victims}
    if entry.drain_in is not None:
        words += " " + _("in %(time)s at the latest") % {"time": lasting(entry.drain_in)}
    return words


def decision_told(kind: str, preset: str, reason: str, figures: Mapping[str, Any]) -> str:
    """One sentence after the other: what was decided, why, and by which figures."""
    sentences = [_headline(kind, preset, reason, str(figures.get("for", "")))]
    tell = _TOLD.get(kind)
    if tell is not None:
        sentences += tell(figures)
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def _headline(kind: str, preset: str, reason: str, for_preset: str) -> str:
    if kind in ("ask_exit", "kill", "drain") and for_preset:
        named = {"preset": preset, "other": for_preset}
        if kind == "drain":
            return _("%(preset)s took no new requests, to make room for %(other)s") % named
        return _("%(preset)s was evicted for %(other)s") % named
    text = {
        "start": _("%(preset)s was started: %(reason)s"),
        "wake": _("%(preset)s was woken: %(reason)s"),
        "drain": _("%(preset)s took no new requests: %(reason)s"),
        "undrain": _("%(preset)s takes requests again: %(reason)s"),
        "ask_exit": _("%(preset)s was ended: %(reason)s"),
        "kill": _("%(preset)s was killed: %(reason)s"),
        "reject": _("A request for %(preset)s was refused: %(reason)s"),
    }.get(kind, f"{kind_told(kind)}: %(preset)s, %(reason)s")
    return text % {"preset": preset, "reason": reason_told(reason)}


def _start_told(figures: Mapping[str, Any]) -> list[str]:
    told = []
    needs, available = _sizes(figures, "needs"), _sizes(figures, "available")
    maps = _sizes(figures, "maps")
    if needs:
        told.append(_("It needs %(sizes)s") % {"sizes": on_devices(needs)})
    if maps:
        files = ", ".join(f"{file}, {mebibytes(size)}" for file, size in maps.items())
        told.append(_("Its weights are mapped from %(files)s") % {"files": files})
    if available:
        told.append(
            _("After the margin there were available %(sizes)s") % {"sizes": on_devices(available)}
        )
    if figures.get("placement"):
        told.append(_("It went: %(place)s") % {"place": figures["placement"]})
    if figures.get("context"):
        told.append(_("Its context: %(count)s tokens") % {"count": f"{figures['context']:,}"})
    return told + _waiters_told(figures)


def _end_told(figures: Mapping[str, Any]) -> list[str]:
    """Also of a drain."""
    told = []
    for name, text in (
        ("idle_for", _("It had been idle for %(time)s")),
        ("asked_every", _("It had lately been asked for about once in %(time)s")),
        ("loaded_for", _("It had been loaded for %(time)s")),
        ("head_for", _("The other had been the next to load for %(time)s")),
        ("free_in", _("It was thought to be free in %(time)s")),
    ):
        if isinstance(figures.get(name), int | float):
            told.append(text % {"time": lasting(figures[name])})
    if figures.get("answers"):
        told.append(_("Answers under way: %(count)s") % {"count": figures["answers"]})
    if needs := _sizes(figures, "needs"):
        told.append(_("The other needs %(sizes)s") % {"sizes": on_devices(needs)})
        if available := _sizes(figures, "available"):
            told.append(
                _("After the margin there were available %(sizes)s")
                % {"sizes": on_devices(available)}
            )
    if frees := _sizes(figures, "frees"):
        told.append(_("That frees %(sizes)s") % {"sizes": on_devices(frees)})
    if over := _sizes(figures, "over"):
        told.append(_("Held beyond the budget: %(sizes)s") % {"sizes": on_devices(over)})
    return told + _waiters_told(figures)


def _refusal_told(figures: Mapping[str, Any]) -> list[str]:
    told = []
    if figures.get("short"):
        told.append(_("It lacked %(sizes)s") % {"sizes": on_devices(figures["short"])})
    if figures.get("granted"):
        told.append(_("It was granted %(sizes)s") % {"sizes": on_devices(figures["granted"])})
    if figures.get("blocked_by"):
        told.append(_("In its way: %(names)s") % {"names": ", ".join(figures["blocked_by"])})
    if figures.get("retry_after"):
        told.append(
            _("It may be tried again after %(time)s") % {"time": lasting(figures["retry_after"])}
        )
    if figures.get("requests", 1) > 1:
        told.append(_("Refused alike: %(requests)s") % {"requests": requests(figures["requests"])})
    if figures.get("problem"):
        told.append(str(figures["problem"]).rstrip("."))
    return told


_TOLD = {
    "start": _start_told,
    "drain": _end_told,
    "ask_exit": _end_told,
    "kill": _end_told,
    "reject": _refusal_told,
}


def _waiters_told(figures: Mapping[str, Any]) -> list[str]:
    count = figures.get("waiters")
    return [_("%(requests)s waited for it") % {"requests": requests(count)}] if count else []


def _sizes(figures: Mapping[str, Any], name: str) -> dict[str, int]:
    """Of `needs_CUDA0` and the like, by device."""
    begin = f"{name}_"
    return {key.removeprefix(begin): size for key, size in figures.items() if key.startswith(begin)}
