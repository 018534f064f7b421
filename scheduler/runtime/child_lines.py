"""One line of a child's output: a state it reports, or an ordinary log line.

Nothing here fails on what a child prints: another engine version, a broken line or a line that only
looks like a report is told apart, never raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Any

import msgspec

PREFIX = b"cmd_child_to_router:"
EXIT_COMMAND = b"cmd_router_to_child:exit\n"

_STATE = b"state:"


class ChildState(StrEnum):
    """The states that the scheduler acts upon, as they stand on the wire."""

    LOADING = auto()
    READY = auto()
    SLEEPING = auto()


@dataclass(frozen=True, slots=True)
class Report:
    """The child says which state it is in."""

    state: ChildState
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """It has the prefix of a report, and is none that we know."""

    text: str


def parse(line: bytes) -> Report | NotUnderstood | None:
    """None for an ordinary log line. The prefix counts at the start of a line only: a log line may
    quote what a client wrote."""
    line = line.strip()
    if not line.startswith(PREFIX):
        return None
    text = text_of(line)
    command = line.removeprefix(PREFIX)
    if not command.startswith(_STATE):
        return NotUnderstood(text)
    try:
        said = msgspec.json.decode(text_of(command.removeprefix(_STATE)))
        state = ChildState(said["state"])
        payload = said.get("payload")
    except (msgspec.DecodeError, RecursionError, TypeError, KeyError, ValueError, AttributeError):
        return NotUnderstood(text)
    return Report(state, payload if isinstance(payload, dict) else {})


def text_of(line: bytes) -> str:
    """The line as text; bytes that are no UTF-8 become replacement characters."""
    return line.decode("utf-8", errors="replace").rstrip()
