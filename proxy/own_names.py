"""Aliases of one key's, or of one team's: where they lead for a name that is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from models_registry.names import ANY, pattern_for, patterns_of
from scheduler.protocol import NO_OWN_NAMES, OwnNames

Aliases = Mapping[str, str]
"""What a client writes, to the name of a preset or an alias of the registry."""


def own_names(name: str, own: Sequence[Aliases]) -> OwnNames:
    """`own` holds the nearest first: the key's, then its team's."""
    own = [aliases for aliases in own if aliases]
    if not own:
        return NO_OWN_NAMES
    if name and (exact := next((aliases[name] for aliases in own if name in aliases), "")):
        return OwnNames(exact=exact)
    found = ((aliases, pattern_for(name, patterns_of(aliases))) for aliases in own)
    return OwnNames(
        wildcard=next((aliases[pattern] for aliases, pattern in found if pattern), ""),
        default=next((aliases[ANY] for aliases in own if ANY in aliases), ""),
    )
