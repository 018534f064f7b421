"""From why the core refuses to what a person reads: each text says what to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from models_registry.near_names import near_names
from scheduler.core.siting import NoPlace
from scheduler.core.sizes import HOST, Bytes
from scheduler.core.values import Code, Exit, Refusal
from scheduler.protocol import Refused

from .exits import describe
from .memory import told

NAMES_SHOWN = 5
LONGEST_NAME_SHOWN = 200
"""Characters; no preset has a longer one."""


_ON_THE_WIRE = {Code.MODEL_NOT_LOADED: "model_not_ready"}
"""One code, one status: the wire's `model_not_loaded` is llama.cpp's 400 of a gateway that loads
nothing by itself."""


def refused(refusal: Refusal, preset: str, known: Sequence[str] = ()) -> Refused:
    """`known` are the names that would have been right; needed for MODEL_NOT_FOUND only."""
    preset = _shortened(preset)
    return Refused(
        _ON_THE_WIRE.get(refusal.code, str(refusal.code)),
        _message(refusal, preset, known),
        retry_after_seconds=refusal.retry_after_seconds,
    )


def model_not_found(preset: str, known: Sequence[str], *, leads_to: str = "") -> Refused:
    """`leads_to` is where an alias of the caller's own leads, which nobody is called either."""
    if leads_to in ("", preset):
        return refused(Refusal(Code.MODEL_NOT_FOUND), preset, known)
    missing = refused(Refusal(Code.MODEL_NOT_FOUND), leads_to, known).message
    asked = f"'{_shortened(preset)}'" if preset else "a request that names no model"
    return Refused(
        "model_not_found",
        f"for this key, or its team, {asked} stands for '{_shortened(leads_to)}', and {missing}",
    )


def model_missing() -> Refused:
    return Refused(
        "model_missing",
        "The body must name a model: `model` is a non-empty string, and there is no default; "
        "GET /v1/models lists them.",
    )


def no_place_told(no_place: NoPlace, preset: str) -> str:
    """Why there is no place for it, and what to do."""
    refusal = Refusal(
        no_place.code,
        short=no_place.short,
        blocked_by=no_place.blocked_by,
        apart=no_place.apart,
    )
    return refused(refusal, preset, ()).message


def registry_unread() -> Refused:
    return Refused(
        "scheduler_unavailable",
        "the registry of models cannot be read yet: the scheduler's log says why, and it tries "
        "again every few seconds",
        retry_after_seconds=5.0,
    )


def request_unknown() -> Refused:
    return Refused(
        "not_found",
        "no request with this id waits or is being answered: it has ended, or never came here",
    )


def request_cancelled() -> Refused:
    return Refused("request_cancelled", "request cancelled by a stop while the model was loading")


def conversation_lost() -> Refused:
    return Refused(
        "conversation_lost",
        "there is no stream of this conversation: it was never begun with this key, was stopped, "
        "ended more than five minutes ago, or went with its model; send the request again",
    )


def preset_invalid(preset: str, problem: str) -> Refused:
    return Refused("preset_invalid", f"the model '{preset}' cannot be started: {problem}")


def model_not_loaded(preset: str) -> Refused:
    return Refused(
        "model_not_loaded",
        f"the model '{preset}' is not loaded, and this request may not load it: "
        "load it in the admin, or allow loading on demand",
    )


_TEXTS = {
    Code.MODEL_REMOVED: "{name} was removed from the registry while this request waited for it",
    Code.DOES_NOT_FIT: "{name} was not loaded at start-up: another model would have to go for it",
    Code.MODEL_NOT_LOADED: (
        "{name} is not loaded, and a GET loads only what fits at once while nobody waits: send a "
        "request that uses it, or load it in the admin"
    ),
    Code.QUEUE_FULL: "too many requests wait already, so this one for '{preset}' was not queued",
    Code.MODEL_QUEUE_FULL: (
        "as many requests as may wait for {name} do so already: send fewer at a time, or name "
        "another model"
    ),
    Code.TENANT_QUEUE_FULL: (
        "as many requests of your team as may wait at a time do so already, so this one for "
        "'{preset}' was not queued: send fewer at a time"
    ),
    Code.QUEUE_TIMEOUT: (
        "{name} could not be loaded or was busy for the whole time a request may wait"
    ),
    Code.UNLOADED: "{name} was unloaded by an administrator while this request waited for it",
    Code.SHUTTING_DOWN: "Corral is shutting down",
    Code.UPSTREAM_UNAVAILABLE: (
        "the remote server of {name} has failed several times in a row, and is left alone for a "
        "moment"
    ),
}


def _message(refusal: Refusal, preset: str, known: Sequence[str]) -> str:
    name = f"the model '{preset}'"
    match refusal.code:
        case Code.MODEL_NOT_FOUND:
            return f"no model is called '{preset}'; {_known(preset, known)}"
        case Code.MODEL_LOAD_FAILED:
            return f"{name} failed to load{_how(refusal.exit)}{_again(refusal)}"
        case Code.MODEL_BACKING_OFF:
            return f"{name} failed to load a moment ago{_how(refusal.exit)}{_again(refusal)}"
        case Code.MODEL_BROKEN:
            return (
                f"{name} failed to load the last time{_how(refusal.exit)}; another model would have"
                " to go for a new try, and goes for a broken one once only: mend its file or its"
                " preset, or load it in the admin, which tries at once"
            )
        case Code.OUT_OF_MEMORY:
            return (
                f"{name} ran out of memory each time it was loaded{_how(refusal.exit)}"
                f"{_granted(refusal.granted)}: unload another model, or give it a smaller context"
                f"{_again(refusal)}"
            )
        case Code.BLOCKED_BY_PINNED:
            return (
                f"{name} cannot be loaded: only pinned models stand in its way "
                f"({', '.join(refusal.blocked_by)}){_short(refusal.short)}; {_past_pins(refusal)}"
            )
        case Code.MODEL_TOO_LARGE:
            return (
                f"{name} needs more memory than there is for models{_short(refusal.short)}: give "
                f"it a smaller context{_or_less_of(refusal.short)}, take a smaller quantization "
                "of it, or raise the device's budget"
            )
        case Code.MEMORY_IN_USE:
            return (
                f"{name} cannot be loaded: programs other than Corral use the memory that it needs"
                f"{_short(refusal.short)}: end them, or give it a smaller context{_again(refusal)}"
            )
        case _:
            return _TEXTS[refusal.code].format(name=name, preset=preset) + _again(refusal)


def _how(exit: Exit | None) -> str:
    if exit is None:
        return ""
    words = f": {exit.words}" if exit.words else ""
    return f" ({describe(exit)}){words}"


def _again(refusal: Refusal) -> str:
    if refusal.retry_after_seconds is None:
        return ""
    return f" (it may be tried again in {max(1, math.ceil(refusal.retry_after_seconds))} s)"


def _short(short: Bytes) -> str:
    """How much is missing, on each device."""
    return f" (it lacks {told(short)})" if short else ""


def _past_pins(refusal: Refusal) -> str:
    if refusal.apart:
        return "unpin them, or change the groups that keep it and them apart"
    return "unpin one, or " + (
        "give it a smaller context" if refusal.short else "raise --models-max"
    )


def _granted(granted: Bytes) -> str:
    return f" (it was granted {told(granted)})" if granted else ""


def _or_less_of(short: Bytes) -> str:
    """What leaves a device goes to the host; prompts are kept there alone."""
    devices = {device for device, _ in short}
    if HOST in devices:
        return " or a smaller prompt cache (cache-ram)"
    return " or fewer GPU layers" if devices else ""


def _shortened(name: str) -> str:
    return f"{name[:LONGEST_NAME_SHOWN]}…" if len(name) > LONGEST_NAME_SHOWN else name


def _known(preset: str, known: Sequence[str]) -> str:
    if not known:
        return "the registry is empty: add a model in the admin, or name a folder by --models-dir"
    if near := near_names(preset, known):
        return f"did you mean {' or '.join(near)}? GET /v1/models lists all"
    shown = ", ".join(f"'{name}'" for name in known[:NAMES_SHOWN])
    more = len(known) - NAMES_SHOWN
    return f"there is {shown}" + (f" and {more} more (GET /v1/models)" if more > 0 else "")


def refusal_of(work: Callable[[], None]) -> Refused | None:
    """What it raises."""
    try:
        work()
    except Refused as refusal:
        return refusal
    return None
