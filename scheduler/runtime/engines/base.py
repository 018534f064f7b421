"""What the scheduler needs to know of an engine: how to start it and how to read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from models_registry.launch import LaunchSpec
from scheduler.core.sizes import NOTHING_GRANTED, Grant


class CannotStart(Exception):
    """There is nothing to execute; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Command:
    """What is executed. `env` is the whole environment: nothing else is inherited. `shown` is what
    people are told of, where that is not all of `argv`. `has_runner`: it ends its whole tree when
    it is asked to by SIGTERM, and nobody else could."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    has_runner: bool = False


class Engine(Protocol):
    """An address is the path of a Unix socket, which begins with /, or `host:port`. `tells_slots`:
    its children can be asked how many of their slots work."""

    tells_slots: bool

    def command(self, spec: LaunchSpec, address: str, grant: Grant = NOTHING_GRANTED) -> Command:
        """The preset's command line, listening at `address` if it can, with what the ledger
        granted: that context, in that place, and no more. Raises CannotStart."""
        ...

    def address(self, payload: Mapping[str, Any]) -> str:
        """Where it listens, out of a `ready` report; empty: where it was told to."""
        ...

    async def heeds_exit(self, address: str) -> bool:
        """Whether a child that has said `ready` can be asked to exit by now."""
        ...

    async def wake(self, address: str) -> None:
        """Make a sleeping child load again; returns when it has answered."""
        ...

    async def busy_slots(self, address: str) -> int | None:
        """How many slots work; None when the child does not say."""
        ...

    async def is_alive(self, address: str) -> bool | None:
        """Whether it answers anything at all, for as long as it takes: whoever asks has a limit.
        False when nobody listens; None when it could not be asked for a reason of our own. It may
        be asked while it works and while it sleeps: it is neither woken nor kept awake."""
        ...

    async def gets_on(self, address: str) -> bool | None:
        """As `is_alive`, but answered only between two steps of its computation. Only where it
        tells of slots, and only while it works: else it would be woken, or kept awake."""
        ...

    async def probe(self, spec: LaunchSpec, address: str) -> str:
        """Make it generate one token (or an embedding, where that is what it is for), for as long
        as it takes. Empty when it did; else why not."""
        ...

    async def is_asleep(self, address: str) -> bool:
        """Whether it sleeps at this moment, without waking it; False when it does not say."""
        ...

    def progress(self, payload: Mapping[str, Any]) -> float | None:
        """From 0 to 1, out of the payload of a `loading` report."""
        ...

    def meta(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """What a `ready` report tells of the model."""
        ...
