"""The rows of all usable keys, as the ring keeps them: what has not changed since the last look is
not built anew, so that ten thousand keys cost little each second."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

import msgspec
from django.db.models import TextField
from django.db.models.functions import Cast

from models_registry.allowing import Allowed
from proxy.callers import Caller, Policy
from proxy.keys import NO_DIGEST
from proxy.models import ApiKey, Team, usable
from proxy.own_names import Aliases
from proxy.scopes import effective
from scheduler.protocol import PriorityName

_Row = tuple[Any, ...]

TEXTS = 4096
"""Different lists and objects of JSON that are kept decoded: most keys have the same ones."""


@dataclass(frozen=True, slots=True)
class Known:
    """A usable key; the digest of nobody's matches nothing. `expires_at` in seconds since 1970."""

    caller: Caller
    digest: str = NO_DIGEST
    expires_at: float | None = None


NOBODY = Known(Caller("", scopes=frozenset()))


class KeyRows:
    """Used by one thread."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Row, _Row, Known]] = {}
        self._teams: dict[int, _Row] = {}

    def read(self) -> dict[str, Known]:
        """By public id."""
        teams = self._teams = {row[0]: row for row in _teams()}
        before, self._known = self._known, {}
        for row in _keys():
            team = teams.get(row[1])
            if team is None:  # it was made after the teams were read: the next look has it
                continue
            last = before.get(row[0])
            unchanged = last is not None and last[0] == row and last[1] == team
            self._known[row[0]] = last if last and unchanged else (row, team, _known(row, team))
        return {public_id: each[2] for public_id, each in self._known.items()}

    def caller_of(self, name: str, scopes: frozenset[str]) -> Caller:
        """One of the team alone, as it was last read; a team that is not there limits nothing."""
        team = next((row for row in self._teams.values() if row[1] == name), None)
        if team is None:
            return Caller(name, scopes=scopes)
        return Caller(name, policy=_policy(team), scopes=scopes, allowed=_lists(_names(team[5])))


def _teams() -> list[_Row]:
    rows = Team.objects.order_by().annotate(
        aliases_text=Cast("aliases", TextField()), allowed_text=Cast("allowed", TextField())
    )
    return list(
        rows.values_list(
            "pk", "name", "weight", "priority", "aliases_text", "allowed_text", "keeps_content"
        )
    )


def _keys() -> list[_Row]:
    rows = ApiKey.objects.annotate(
        aliases_text=Cast("aliases", TextField()),
        allowed_text=Cast("allowed", TextField()),
        scopes_text=Cast("scopes", TextField()),
    )
    return list(
        rows.filter(usable())
        .order_by()
        .values_list(
            "public_id", "team_id", "digest", "expires_at", "name", "line", "user__username",
            "user__is_superuser", "aliases_text", "allowed_text", "scopes_text",
        )
    )  # fmt: skip


def _known(row: _Row, team: _Row) -> Known:
    public_id, _, digest, expires_at, name, line, user, is_superuser, aliases, allowed, scopes = row
    caller = Caller(
        team[1],
        public_id,
        _policy(team),
        _aliases(aliases),
        scopes=effective(_names(scopes), may_admin=user is None or is_superuser),
        allowed=_lists(_names(allowed), _names(team[5])),
        user=user or "",
        key_name=name,
        line=line,
    )
    return Known(caller, digest, _seconds(expires_at))


def _lists(*lists: tuple[str, ...]) -> Allowed:
    """Those that say anything."""
    return tuple(each for each in lists if each)


def _policy(team: _Row) -> Policy:
    return Policy(team[2], cast(PriorityName, team[3]), _aliases(team[4]), team[0], team[6])


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


@lru_cache(TEXTS)
def _names(text: str) -> tuple[str, ...]:
    return msgspec.json.decode(text, type=tuple[str, ...])


@lru_cache(TEXTS)
def _aliases(text: str) -> Aliases:
    return msgspec.json.decode(text, type=dict[str, str])
