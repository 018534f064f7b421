"""The rows of limits, as the key ring keeps them, and whom they concern."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from proxy.callers import Caller
from proxy.models import Limit as LimitRow
from scheduler.protocol import Limit

_OF_ALL = ""
NO_LIMITS: tuple[Limit, ...] = ()


class LimitRows:
    """As they were read at one time. Where there are none a request costs nothing."""

    def __init__(self, of_keys: dict[str, list[Limit]], of_teams: dict[str, list[Limit]]) -> None:
        """Of keys by their line, of teams by their name, `of_teams[""]` those of all."""
        self._of_keys = of_keys
        self._of_teams = of_teams
        self._made: dict[tuple[str, str], tuple[Limit, ...]] = {}

    def of(self, caller: Caller) -> Caller:
        """The same caller, with those of its limits that the scheduler may have to count."""
        if not self._of_keys and not self._of_teams:
            return caller
        whose = caller.team, caller.line or caller.key
        limits = self._made.get(whose)
        if limits is None:
            team, key = whose
            limits = self._made[whose] = (
                *self._of_keys.get(key, ()),
                *self._of_teams.get(team, ()),
                *self._of_teams.get(_OF_ALL, ()),
            )
        return replace(caller, limits=limits) if limits else caller


NO_ROWS = LimitRows({}, {})


def read_limits() -> LimitRows:
    """One query."""
    of_keys: defaultdict[str, list[Limit]] = defaultdict(list)
    of_teams: defaultdict[str, list[Limit]] = defaultdict(list)
    rows = LimitRow.objects.order_by("pk").values_list(
        "key__line", "key__public_id", "team__name", "counter", "model", "requests_per_minute",
        "tokens_per_minute", "concurrent", "tokens_per_day", "tokens_per_month",
    )  # fmt: skip
    for line, key, team, counter, model, requests, tokens, concurrent, day, month in rows:
        limit = Limit(
            counter,
            "key" if key is not None else "team" if team is not None else "everybody",
            model,
            requests=requests,
            tokens=tokens,
            concurrent=concurrent,
            day=day,
            month=month,
        )
        if key is not None:
            of_keys[line or key].append(limit)
        else:
            of_teams[team or _OF_ALL].append(limit)
    return LimitRows(dict(of_keys), dict(of_teams))
