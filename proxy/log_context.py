"""Whose request the lines of the log are about, for as long as it is answered."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

LONGEST_MODEL = 100
"""Characters of a name that a client made up."""


@dataclass(slots=True)
class LogContext:
    """Filled in as it becomes known, and shared by all tasks that carry the request. `key` is the
    public id."""

    request_id: str
    key: str = ""
    team: str = ""
    model: str = ""


of_request: ContextVar[LogContext | None] = ContextVar("of_request", default=None)
"""Set by the guard around each request; None outside one."""


def request_id() -> str:
    """What the client knows the request by that is answered here; empty outside one."""
    request = of_request.get()
    return "" if request is None else request.request_id


def comes_from(key: str, team: str) -> None:
    """Said once it is known who asks."""
    request = of_request.get()
    if request is not None:
        request.key, request.team = key, team


def is_for(model: str) -> None:
    """As its client names it, and then by the preset's own name."""
    request = of_request.get()
    if request is not None:
        request.model = model[:LONGEST_MODEL]
