"""The rules of a group, as the scheduler needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from models_registry.models import Group


@dataclass(frozen=True, slots=True)
class GroupRules:
    """Which presets a preset is not loaded beside; its name is empty for a preset without a group.

    Of a group `one_at_a_time` one preset is loaded at once; beside one of an `exclusive` group none
    from outside is, but of a `persistent` one.
    """

    name: str = ""
    one_at_a_time: bool = False
    exclusive: bool = False
    persistent: bool = False


NO_GROUP = GroupRules()


def rules_of(group: Group | None) -> GroupRules:
    if group is None:
        return NO_GROUP
    return GroupRules(group.name, group.one_at_a_time, group.exclusive, group.persistent)
