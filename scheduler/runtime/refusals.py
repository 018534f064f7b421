"""From why the core refuses to what a person reads: each text says what to do."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.values import Code, Exit, Refusal
from scheduler.protocol import Refused

from .exits import describe

NAMES_SHOWN = 5
LONGEST_NAME_SHOWN = 200
"""Characters; no preset has a longer one."""


def refused(refusal: Refusal, preset: str, known: Sequence[str] = ()) -> Refused:
    """`known` are the names that would have been right; needed for MODEL_NOT_FOUND only."""
    if len(preset) > LONGEST_NAME_SHOWN:
        preset = f"{preset[:LONGEST_NAME_SHOWN]}…"
    return Refused(
        str(refusal.code),
        _message(refusal, preset, known),
        retry_after_seconds=refusal.retry_after_seconds,
    )


def model_not_found(preset: str, known: Sequence[str]) -> Refused:
    return refused(Refusal(Code.MODEL_NOT_FOUND), preset, known)


def registry_unread() -> Refused:
    return Refused(
        "scheduler_unavailable",
        "the registry of models cannot be read yet: the scheduler's log says why, and it tries "
        "again every few seconds",
        retry_after_seconds=5.0,
    )


def preset_invalid(preset: str, problem: str) -> Refused:
    return Refused("preset_invalid", f"the model '{preset}' cannot be started: {problem}")


def model_not_loaded(preset: str) -> Refused:
    return Refused(
        "model_not_loaded",
        f"the model '{preset}' is not loaded, and this request may not load it: "
        "load it in the admin, or allow loading on demand",
    )


def _message(refusal: Refusal, preset: str, known: Sequence[str]) -> str:  # noqa: C901 - a table
    name = f"the model '{preset}'"
    match refusal.code:
        case Code.MODEL_NOT_FOUND:
            return f"no model is called '{preset}'; {_known(known)}"
        case Code.MODEL_REMOVED:
            return f"{name} was removed from the registry while this request waited for it"
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
                f"{name} ran out of memory each time it was loaded{_how(refusal.exit)}: unload "
                f"another model, or give it a smaller context or fewer GPU layers{_again(refusal)}"
            )
        case Code.BLOCKED_BY_PINNED:
            return (
                f"{name} cannot be loaded: only pinned models stand in its way "
                f"({', '.join(refusal.blocked_by)}); unpin one, or raise --models-max"
            )
        case Code.DOES_NOT_FIT:
            return f"{name} was not loaded at start-up: another model would have to go for it"
        case Code.QUEUE_FULL:
            return f"too many requests wait already, so this one for '{preset}' was not queued"
        case Code.QUEUE_TIMEOUT:
            return f"{name} could not be loaded or was busy for the whole time a request may wait"
        case Code.UNLOADED:
            return f"{name} was unloaded by an administrator while this request waited for it"
        case Code.SHUTTING_DOWN:
            return "Corral is shutting down"


def _how(exit: Exit | None) -> str:
    if exit is None:
        return ""
    words = f": {exit.words}" if exit.words else ""
    return f" ({describe(exit)}){words}"


def _again(refusal: Refusal) -> str:
    if refusal.retry_after_seconds is None:
        return ""
    return f" (it may be tried again in {max(1, round(refusal.retry_after_seconds))} s)"


def _known(known: Sequence[str]) -> str:
    if not known:
        return "the registry is empty: add a model in the admin, or name a folder by --models-dir"
    shown = ", ".join(f"'{name}'" for name in known[:NAMES_SHOWN])
    more = len(known) - NAMES_SHOWN
    return f"there is {shown}" + (f" and {more} more (GET /v1/models)" if more > 0 else "")
