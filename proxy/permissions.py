"""Which scope each kind of endpoint takes: one of those that stand beside it."""

from __future__ import annotations

from collections.abc import Mapping

from proxy.callers import Caller
from proxy.endpoints import Kind
from proxy.scopes import IN_WORDS, Scope
from scheduler.protocol import Refused

_INFER = (Scope.INFER,)
_READ = (Scope.READ,)
_LISTS = (Scope.INFER, Scope.READ)
"""Who may only infer has to find a model's name; nothing of what runs is told them."""
_LOAD = (Scope.LOAD,)
_ADMIN = (Scope.ADMIN,)

NEEDS: Mapping[Kind, tuple[Scope, ...]] = {
    Kind.FORWARD: _INFER,
    Kind.LOOK: _READ,
    Kind.CONTROL: _INFER,
    Kind.METRICS: (Scope.METRICS,),
    Kind.MODELS: _LISTS,
    Kind.MODEL: _LISTS,
    Kind.EVENTS: _READ,
    Kind.PROPS: _LISTS,
    Kind.HEALTH: (),
    Kind.READY: (),
    Kind.FETCH: _ADMIN,
    Kind.REMOVE: _ADMIN,
    Kind.LOAD: _LOAD,
    Kind.UNLOAD: _LOAD,
    Kind.RESUME: _INFER,
    Kind.STOP: _INFER,
    Kind.LOOKUP: _INFER,
    Kind.OLLAMA: _INFER,
    Kind.OLLAMA_SAYS: _LISTS,
    Kind.OLLAMA_RUNS: _READ,
    Kind.MANAGE: _ADMIN,
    Kind.PULL: _INFER,  # of what is there; all else asks for an admin key
}
"""Nothing beside a kind: it is public."""


def refuse_without_scope(caller: Caller, kind: Kind) -> None:
    """Raises Refused."""
    needed = NEEDS[kind]
    if needed and caller.scopes.isdisjoint(needed):
        raise lacks(needed[0])


def lacks(scope: Scope) -> Refused:
    return Refused(
        "permission_denied",
        f"This key may not {IN_WORDS[scope]}: it lacks the scope `{scope}` (docs/teams.md).",
    )
