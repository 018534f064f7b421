"""Whose request it is, as everything that carries requests knows it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from models_registry.allowing import Allowed, may_use
from proxy.own_names import Aliases, own_names
from proxy.scopes import ALL
from scheduler.protocol import NO_OWN_NAMES, Limit, OwnNames, PriorityName


@dataclass(frozen=True, slots=True)
class Policy:
    """How a team stands in the queue, and the aliases that are its own. `team_id` is its row's key,
    0 where no row was read. `keeps_content`: its prompts and answers are stored."""

    weight: float = 1.0
    priority: PriorityName = "normal"
    aliases: Aliases = field(default_factory=dict)
    team_id: int = field(default=0, compare=False)
    keeps_content: bool = False


NO_POLICY = Policy()


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is. `key` is the key's public id, or empty; a key of the settings has none,
    and `digest` instead. `aliases` are the key's own, `line` is the public id of the first key of a
    rotation. `allowed` says which models it may use. `user` is the name of the person whose key it
    is, empty for a service. `limits` are those that may concern it, whatever it asks for.
    `told_times`: each answer says how long it waited."""

    team: str
    key: str = ""
    policy: Policy = NO_POLICY
    aliases: Aliases = field(default_factory=dict)
    digest: str = ""
    scopes: frozenset[str] = ALL
    allowed: Allowed = ()
    user: str = ""
    key_name: str = ""
    line: str = ""
    limits: tuple[Limit, ...] = ()
    told_times: bool = False

    @property
    def owner(self) -> str:
        """To whom its conversations belong: a key, with its successors, alone; without keys
        everybody."""
        return self.line or self.key or self.digest

    def own_names(self, name: str) -> OwnNames:
        """Where its own aliases lead for `name`."""
        if not self.aliases and not self.policy.aliases:
            return NO_OWN_NAMES
        return own_names(name, (self.aliases, self.policy.aliases))

    def may_use(self, names: Collection[str]) -> bool:
        """Whether a preset of these names, its own and its aliases, is there for it."""
        return not self.allowed or may_use(names, self.allowed)


ANYBODY = Caller("")
"""Who may see and use everything: the gateway itself."""
