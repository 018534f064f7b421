"""The instance state machine: every legal move is in TRANSITIONS, and nowhere else.

A child's report may come late, twice, or after we have decided otherwise: each such case is a row
of the table, never an `if` where the report arrives.
"""

from __future__ import annotations

from enum import StrEnum, auto

from .errors import IllegalTransition


class State(StrEnum):
    """What an instance is to us. All but EXITED hold a slot of `models_max`."""

    LOADING = auto()  # spawned or woken: its weights are on their way in; uses a loader
    LOADED = auto()  # answers; the only state in which a lease is granted
    SLEEPING = auto()  # its weights are freed; waking it is an admission, not a free transition
    DRAINING = auto()  # keeps the leases it has, takes no new one
    STOPPING = auto()  # asked to exit, or killed; its slot is not free before it has exited
    EXITED = auto()  # reaped


class Cue(StrEnum):
    """What moves an instance: the child's three reports, our four decisions, its end."""

    LOADING = auto()
    READY = auto()
    ASLEEP = auto()
    WAKE = auto()
    DRAIN = auto()
    UNDRAIN = auto()
    STOP = auto()
    EXIT = auto()


REPORTS = frozenset({Cue.LOADING, Cue.READY, Cue.ASLEEP})
LEAVING = frozenset({State.DRAINING, State.STOPPING})
SETTLED = frozenset({State.LOADED, State.SLEEPING})

TRANSITIONS: dict[State, dict[Cue, State]] = {
    State.LOADING: {
        Cue.LOADING: State.LOADING,
        Cue.READY: State.LOADED,
        # Its `ready` was lost: what sleeps has loaded. Whoever waits gets a wake.
        Cue.ASLEEP: State.SLEEPING,
        # Only a child that woke by itself under a lease; any other is killed.
        Cue.DRAIN: State.DRAINING,
        Cue.STOP: State.STOPPING,
        Cue.EXIT: State.EXITED,
    },
    State.LOADED: {
        # Progress and `ready` may come on two streams: a late progress line says nothing new.
        Cue.LOADING: State.LOADED,
        Cue.READY: State.LOADED,
        # Under a lease as well: it releases nothing, but nothing more is granted.
        Cue.ASLEEP: State.SLEEPING,
        Cue.DRAIN: State.DRAINING,
        Cue.STOP: State.STOPPING,
        Cue.EXIT: State.EXITED,
    },
    State.SLEEPING: {
        # It woke by itself, for a request granted in the moment in which it fell asleep.
        Cue.LOADING: State.LOADING,
        Cue.READY: State.LOADED,
        Cue.ASLEEP: State.SLEEPING,
        Cue.WAKE: State.LOADING,
        Cue.DRAIN: State.DRAINING,
        Cue.STOP: State.STOPPING,
        Cue.EXIT: State.EXITED,
    },
    State.DRAINING: {
        # A child goes on reporting while it drains; see Instance.undrain.
        Cue.LOADING: State.DRAINING,
        Cue.READY: State.DRAINING,
        Cue.ASLEEP: State.DRAINING,
        Cue.UNDRAIN: State.LOADED,
        Cue.STOP: State.STOPPING,
        Cue.EXIT: State.EXITED,
    },
    State.STOPPING: {
        # It may report "loaded" or "sleeping" after we have decided to stop it.
        Cue.LOADING: State.STOPPING,
        Cue.READY: State.STOPPING,
        Cue.ASLEEP: State.STOPPING,
        # Killed after it was asked.
        Cue.STOP: State.STOPPING,
        Cue.EXIT: State.EXITED,
    },
    State.EXITED: {},
}


def advance(state: State, cue: Cue) -> State:
    """The state after the cue; raises IllegalTransition, and then nothing has changed."""
    try:
        return TRANSITIONS[state][cue]
    except KeyError:
        raise IllegalTransition(f"{cue} is not allowed in state {state}") from None
