"""Whose request it is, as everything that carries requests knows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from proxy.own_names import Aliases, own_names
from scheduler.protocol import OwnNames, PriorityName


@dataclass(frozen=True, slots=True)
class Policy:
    """How a team stands in the queue, and the aliases that are its own."""

    weight: float = 1.0
    priority: PriorityName = "normal"
    aliases: Aliases = field(default_factory=dict)


NO_POLICY = Policy()


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is. `key` is the key's public id, or empty; a key of the settings has none,
    and `digest` instead. `aliases` are the key's own."""

    team: str
    key: str = ""
    policy: Policy = NO_POLICY
    aliases: Aliases = field(default_factory=dict)
    digest: str = ""

    @property
    def owner(self) -> str:
        """To whom its conversations belong: a key alone; without keys everybody."""
        return self.key or self.digest

    def own_names(self, name: str) -> OwnNames:
        """Where its own aliases lead for `name`."""
        return own_names(name, (self.aliases, self.policy.aliases))
