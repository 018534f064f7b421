"""Whose usage somebody may see: everybody's, that of the teams they lead and of their own keys, or
that of one key. What lies outside is as if it were not there."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

SEE_ALL = "proxy.view_usagerecord"


@dataclass(frozen=True, slots=True)
class Sight:
    """Teams by the number of their row: names are changed, and taken again by others. Of the two
    sets whatever is in one of them."""

    everything: bool = False
    teams: frozenset[int] = frozenset()
    keys: frozenset[str] = frozenset()

    @property
    def rows(self) -> Q:
        """Of records, and of sums that tell teams and keys apart."""
        if self.everything:
            return Q()
        return Q(team_id__in=self.teams) | Q(key__in=self.keys)
