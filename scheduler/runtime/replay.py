"""A recorded life once more: its events to a fresh planner, its decisions compared. No Django."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scheduler.core.decisions import AskExit, Decision, Drain, Grant, Kill, Reject, Start
from scheduler.core.events import Event, Requested
from scheduler.core.planner import Planner
from scheduler.core.values import Config, Kind, RequestId

from .event_log import CannotRead, Gap, Header, Step, decision_without_words, read_life

_REQUESTS = frozenset({Kind.POST, Kind.GET, Kind.WEBSOCKET})


@dataclass(frozen=True, slots=True)
class Difference:
    """The first step in which the planner decided otherwise, or failed. `at` is seconds since the
    scheduler's start."""

    part: str
    line: int
    at: float
    event: Event
    recorded: tuple[Decision, ...]
    decided: tuple[Decision, ...]
    failure: str = ""


@dataclass(slots=True)
class Replay:
    """What came of it, up to its end, or to the first difference, or to where steps are missing.
    Times in seconds; `waits` are those of requests, from their first arrival to their grant."""

    life: str
    planner: Planner
    began: str = ""
    seconds: float = 0.0
    events: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)
    """Of those that have a reason, by their name and it."""
    waits: list[float] = field(default_factory=list)
    difference: Difference | None = None
    missing: str = ""
    """Where steps are missing; empty when none are."""
    now: float = 0.0


def replay(
    path: Path,
    until: float | None = None,
    make_planner: Callable[[Config], Planner] = Planner,
) -> Replay:
    """Up to `until` seconds since the scheduler's start. Raises CannotRead, and OSError."""
    lines = read_life(path)
    _, first = next(lines)
    if not isinstance(first, Header):
        raise CannotRead(f"{path} does not begin with a header")
    done = Replay(first.life, make_planner(first.config), first.began, now=first.now)
    arrived: dict[RequestId, float] = {}
    for part, line in lines:
        match line:
            case Header():
                continue
            case Gap(number, lost):
                done.missing = f"{part.name}, line {number}: {lost} steps are missing here"
                return done
            case Step():
                if until is not None and line.now - first.now > until:
                    return done
                done.now, done.seconds = line.now, line.now - first.now
                decided, failure = _decided(done.planner, line)
                _count(done, line, decided, arrived)
                if failure or decided != line.decisions:
                    done.difference = Difference(
                        *(part.name, line.number, done.seconds, line.event, line.decisions),
                        *(decided, failure),
                    )
                    return done
    return done


def _decided(planner: Planner, step: Step) -> tuple[tuple[Decision, ...], str]:
    """What the planner decides now, and how it failed if it did: that is what one looks for."""
    try:
        decisions = planner.handle(step.event, step.now)
    except Exception as failure:
        return (), f"{type(failure).__name__}: {failure}"
    return tuple(decision_without_words(decision) for decision in decisions), ""


def _count(
    done: Replay, step: Step, decided: Sequence[Decision], arrived: dict[RequestId, float]
) -> None:
    done.events[type(step.event).__name__] += 1
    if isinstance(step.event, Requested) and step.event.kind in _REQUESTS:
        arrived[step.event.request] = step.event.arrived
    for decision in decided:
        done.decisions[_name(decision)] += 1
        if isinstance(decision, Grant | Reject):
            came = arrived.pop(decision.request, None)
            if came is not None and isinstance(decision, Grant):
                done.waits.append(step.now - came)


def _name(decision: Decision) -> str:
    name = type(decision).__name__
    match decision:
        case Start() | Drain() | AskExit() | Kill():
            return f"{name} {decision.reason}"
        case Reject():
            return f"{name} {decision.refusal.code}"
    return name
