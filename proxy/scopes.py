"""What a key is good for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop


class Scope(StrEnum):
    """`infer`: have models answer. `read`: see what is loaded, and what happens to models. `load`:
    load and unload them, and say how long they stay. `metrics`: the figures of all teams, at
    /metrics. `admin`: manage everything."""

    INFER = "infer"
    READ = "read"
    LOAD = "load"
    METRICS = "metrics"
    ADMIN = "admin"


ALL = frozenset(Scope)
USUAL = (Scope.INFER, Scope.READ)
"""Those of a new key, unless told."""
OF_SETTINGS = frozenset({Scope.INFER, Scope.READ, Scope.LOAD})
"""Those of the keys of `serve`'s command line: what llama-server's own may do."""
OF_SUPERUSERS = frozenset({Scope.METRICS, Scope.ADMIN})
"""What goes beyond a team: only superusers give it, and a person's key loses it with that."""
IN_WORDS = {
    Scope.INFER: gettext_noop("use the models"),
    Scope.READ: gettext_noop("see what is loaded"),
    Scope.LOAD: gettext_noop("load and unload models"),
    Scope.METRICS: gettext_noop("see the figures of all teams"),
    Scope.ADMIN: gettext_noop("manage everything"),
}


def usual() -> list[Scope]:
    """A column's default."""
    return [*USUAL]


def scopes_problem(scopes: object, among: Iterable[str] = Scope) -> str:
    """What is wrong with a list of scopes; empty when nothing is."""
    known = [*among]
    if not isinstance(scopes, list) or not all(isinstance(each, str) for each in scopes):
        return _("Write a list of scopes, such as infer and read.")
    if unknown := [each for each in scopes if each not in known]:
        return _("%(value)s is not to be had: choose among %(join)s.") % {
            "value": f"{unknown[0][:60]!r}",
            "join": ", ".join(known),
        }
    if len(set(scopes)) < len(scopes):
        return _("A scope stands there twice.")
    return "" if scopes else _("Choose at least one of %(join)s.") % {"join": ", ".join(known)}


def in_order(scopes: Iterable[str]) -> list[str]:
    """As they are stored, so that the same scopes are the same list."""
    return [each for each in Scope if each in {*scopes}]


def effective(scopes: Sequence[str], *, may_admin: bool) -> frozenset[str]:
    """Who manages everything may do the rest as well. `may_admin` is false for a key whose person
    is no superuser any more: it keeps what else it has."""
    kept = frozenset(scopes) if may_admin else frozenset(scopes) - OF_SUPERUSERS
    return ALL if Scope.ADMIN in kept else kept
