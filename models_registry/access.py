"""Who asks the management API, and may they: each route names its permission, as `auth=`.

The registry may not know keys, so whoever does (proxy/access.py) registers how an asker is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest


@dataclass(frozen=True, slots=True)
class Asker:
    """Someone who asks: a person in a session, or the holder of a key.

    `everything` is true for admin keys and superusers; `label` stands in the history of changes.
    `manages` says whether the management API is open to them at all, whatever they may do there.
    `user` is the person's primary key, None for a service's key; `key`, `scopes` and `team` (its
    primary key) are the key's, empty for a session.
    """

    label: str
    everything: bool = False
    permissions: frozenset[str] = field(default_factory=frozenset)
    manages: bool = True
    user: int | None = None
    key: str = ""
    scopes: frozenset[str] = field(default_factory=frozenset)
    team: int | None = None

    def may(self, permission: str) -> bool:
        return self.everything or permission in self.permissions


Identify = Callable[[HttpRequest], Asker]
"""Raises when nobody who may manage anything asks."""

_identify: Identify | None = None


def register(identify: Identify) -> None:
    global _identify
    _identify = identify


def identify(request: HttpRequest) -> Asker:
    if _identify is None:
        raise PermissionDenied("this process knows no keys")
    return _identify(request)


class Needs:
    """ninja's `auth=`: the asker becomes `request.auth`. Runs before a byte of the body is read.

    Without a permission only those pass who may do everything, so that a route that names none is
    closed rather than open.
    """

    csrf = True  # the docs page then sends the token of its session along

    def __init__(self, permission: str = "") -> None:
        self.permission = permission

    def __call__(self, request: HttpRequest) -> Asker:
        asker = identify(request)
        if not asker.may(self.permission):
            raise PermissionDenied(f"{asker.label} lacks the permission {self.permission or 'all'}")
        return asker


def asker_of(request: HttpRequest) -> Asker:
    asker = getattr(request, "auth", None)
    if not isinstance(asker, Asker):
        raise PermissionDenied("nobody was asked who this is")
    return asker
