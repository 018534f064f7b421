"""Who acts through the gateway's own paths, for the audit trail; and what changes no row there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from models_registry.access import Asker
from models_registry.audit.actors import Actor, Door, Kind, Look, Occasion, acting, actor_of
from models_registry.audit.asked import asked_of
from models_registry.client_address import address_behind
from proxy.callers import Caller
from proxy.carriage import Request
from proxy.queries import AWAY, DatabaseThread, database_away

T = TypeVar("T")

_OF_OLLAMA = "/api/"
_FORWARDED = b"x-forwarded-for"


class AuditNotes:
    """One per process."""

    def __init__(self) -> None:
        self._thread = DatabaseThread("audit")

    async def note(self, action: str, model: str, caller: Caller, request: Request) -> None:
        """The scheduler has agreed to it. Raises Refused when it cannot be recorded."""
        team = caller.policy.team_id or None
        written = partial(asked_of, action, model, team=team)
        try:
            await self._thread.run(partial(done_by, by_caller(caller, request), written))
        except AWAY as error:
            raise database_away(error) from error

    async def close(self) -> None:
        await self._thread.close()


def by_caller(caller: Caller, request: Request) -> Look:
    """A key's holder; one of `serve`'s command line has no row, and nobody needs one without
    keys."""
    if caller.key:
        name = f"{caller.key_name} (ck_{caller.key})"
        team = caller.policy.team_id or None
        actor = Actor(Kind.KEY, name, None, caller.key, team)
    elif caller.digest:
        actor = Actor(Kind.KEY, "a key of serve's command line")
    else:
        actor = Actor(Kind.NOBODY, "anybody (--no-auth)")
    return partial(_occasion, actor, request)


def by_asker(asker: Asker, request: Request) -> Look:
    return partial(_occasion, actor_of(asker), request)


def done_by(who: Look, change: Callable[[], T]) -> T:
    with acting(who):
        return change()


def _occasion(actor: Actor, request: Request) -> Occasion:
    client = request.scope.get("client") or ("",)
    forwarded = b",".join(value for name, value in request.headers if name == _FORWARDED)
    ollama = request.scope["path"].startswith(_OF_OLLAMA)
    return Occasion(
        actor,
        Door.OLLAMA if ollama else Door.MODELS,
        address_behind(str(client[0]), forwarded.decode("latin-1")) or "",
        request.id,
        frozenset({actor.name}),
    )
