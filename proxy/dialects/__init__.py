"""How each API that Corral speaks writes an error. The `code` is the same in all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scheduler.protocol import Refused


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """`event` is the name of the event that carries it in a stream; empty for dialects whose events
    have no names."""

    status: int
    body: dict[str, Any]
    event: str = ""


Dialect = Callable[[Refused, str], ErrorAnswer]
"""From a refusal and the model name of the request (empty when there was none)."""
