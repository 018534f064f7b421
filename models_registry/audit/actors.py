"""Who acts, from where, and through what: kept for as long as they do, and written with whatever
they change."""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from models_registry.access import Asker


class Kind(StrEnum):
    USER = "user"
    KEY = "key"
    COMMAND_LINE = "command line"
    JOB = "job"
    NOBODY = "nobody"
    """Somebody who has not said who they are, or not proved it."""


class Door(StrEnum):
    """Through what something was done."""

    ADMIN = "admin"
    ACCOUNT = "account"
    REST = "rest"
    MODELS = "models"
    """llama.cpp's own paths."""
    OLLAMA = "ollama"
    COMMAND = "command"
    IMPORT = "import"
    RESCAN = "rescan"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Actor:
    """`user` is an account's primary key, `key` a key's public part, `team` the key's."""

    kind: Kind
    name: str
    user: int | None = None
    key: str = ""
    team: int | None = None


NOBODY = Actor(Kind.NOBODY, "nobody")


@dataclass(frozen=True, slots=True)
class Occasion:
    """`origin` is a client's address, `command line: <command>`, or a file's path. `reasons` are
    words of histories that say no more than who it was."""

    actor: Actor
    door: str
    origin: str = ""
    request_id: str = ""
    reasons: frozenset[str] = frozenset()


Look = Callable[[], Occasion]
"""Asked when something is written: who it is may be known only then."""

_look: ContextVar[Look | None] = ContextVar("audit_occasion", default=None)


def occasion() -> Occasion:
    look = _look.get()
    return look() if look is not None else of_process()


@contextlib.contextmanager
def acting(look: Look) -> Iterator[None]:
    token = _look.set(look)
    try:
        yield
    finally:
        _look.reset(token)


@contextlib.contextmanager
def through(door: Door, origin: str = "") -> Iterator[None]:
    """The same actor by another door. An empty `origin` stays what it was."""
    before = _look.get() or of_process

    def look() -> Occasion:
        found = before()
        return replace(found, door=door, origin=origin or found.origin)

    with acting(look):
        yield


@contextlib.contextmanager
def job(name: str) -> Iterator[None]:
    """What nobody waits for."""
    with acting(lambda: Occasion(Actor(Kind.JOB, name), Door.JOB)):
        yield


def actor_of(asker: Asker) -> Actor:
    kind = Kind.KEY if asker.key else Kind.USER
    return Actor(kind, asker.label, asker.user, asker.key, asker.team)


def of_process() -> Occasion:
    """Who runs `manage.py`, or another program that uses Corral's rows."""
    program = Path(sys.argv[0]).name
    command = sys.argv[1] if program == "manage.py" and len(sys.argv) > 1 else program
    actor = Actor(Kind.COMMAND_LINE, _account())
    return Occasion(actor, Door.COMMAND, f"command line: {command}"[:500])


def _account() -> str:
    """Of the machine. Who used sudo is named first."""
    try:
        account = getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as containers have
        account = f"uid {os.getuid()}"
    behind = os.environ.get("SUDO_USER", "")
    return f"{behind} (as {account})" if behind else account
