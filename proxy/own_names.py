"""Aliases of one key's, or of one team's: where they lead for a name that is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from models_registry.names import ANY, pattern_for, patterns_of, twin_of
from scheduler.protocol import NO_OWN_NAMES, OwnNames

Aliases = Mapping[str, str]
"""What a client writes, to the name of a preset or an alias of the registry."""


def own_names(name: str, own: Sequence[Aliases]) -> OwnNames:
    """`own` holds the nearest first: the key's, then its team's."""
    own = [aliases for aliases in own if aliases]
    if not own:
        return NO_OWN_NAMES
    for written in filter(None, (name, twin_of(name))):
        if exact := next((aliases[written] for aliases in own if written in aliases), ""):
            return OwnNames(exact=exact)
    found = ((aliases, pattern_for(name, patterns_of(aliases))) for aliases in own)
    return OwnNames(
        wildcard=next((aliases[pattern] for aliases, pattern in found if pattern), ""),
        default=next((aliases[ANY] for aliases in own if ANY in aliases), ""),
    )
