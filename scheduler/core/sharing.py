"""Groups: which presets are not loaded beside each other, whatever memory would allow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sharing:
    """The group of a preset, by its name; empty for none. Of a group `one_at_a_time` one preset is
    loaded at once; beside one of an `exclusive` group none from outside is, but of a `persistent`
    one."""

    group: str = ""
    one_at_a_time: bool = False
    exclusive: bool = False
    persistent: bool = False

    @property
    def restricts(self) -> bool:
        return self.one_at_a_time or self.exclusive


NO_GROUP = Sharing()


def kept_apart(one: Sharing, other: Sharing) -> bool:
    """Of two different presets. The same for both, whichever is loaded first."""
    if one.group and one.group == other.group:
        return one.one_at_a_time
    return (one.exclusive and not other.persistent) or (other.exclusive and not one.persistent)
