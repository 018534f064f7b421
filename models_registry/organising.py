"""Tags, group and profiles of many presets at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.core.exceptions import ValidationError
from django.db import transaction

from models_registry.models import Group, Preset, Profile
from models_registry.options.policy_keys import LONGEST_TAGS
from models_registry.tags import joined, tags_of


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is to change. `group` counts when `regroup`; None then takes presets out of theirs."""

    add_tags: Collection[str] = ()
    remove_tags: Collection[str] = ()
    regroup: bool = False
    group: Group | None = None
    add_to: Collection[Profile] = ()
    remove_from: Collection[Profile] = ()


def organise(presets: Iterable[Preset], wishes: Wishes, *, reason: str) -> int:
    """How many presets changed: all as wished, or none. `reason` stands in their history. Raises
    ValidationError, which names the preset."""
    keys = [preset.pk for preset in presets]
    with transaction.atomic():
        rows = list(Preset.objects.select_for_update().filter(pk__in=keys))
        changed = {row.pk for row in rows if _changed(row, wishes, reason)}
        for profile in wishes.add_to:
            there = {*profile.presets.values_list("pk", flat=True)}
            changed |= _moved(profile, [row for row in rows if row.pk not in there], into=True)
        for profile in wishes.remove_from:
            there = {*profile.presets.values_list("pk", flat=True)}
            changed |= _moved(profile, [row for row in rows if row.pk in there], into=False)
    return len(changed)


def _changed(row: Preset, wishes: Wishes, reason: str) -> bool:
    had = tags_of(row)
    kept = [tag for tag in had if tag not in wishes.remove_tags]
    tags = tuple(dict.fromkeys([*kept, *wishes.add_tags]))
    group_id = (wishes.group.pk if wishes.group else None) if wishes.regroup else row.group_id
    if tags == had and group_id == row.group_id:
        return False
    row.tags, row.group_id = joined(tags) if tags != had else row.tags, group_id
    if len(row.tags) > LONGEST_TAGS:
        raise ValidationError(
            f"{row.name} would have more than {LONGEST_TAGS} characters of tags: take some away."
        )
    row._change_reason = reason  # type: ignore[attr-defined]  # simple_history reads it
    row.save(update_fields=["tags", "group"])
    return True


def _moved(profile: Profile, rows: Collection[Preset], *, into: bool) -> set[int]:
    if rows:
        (profile.presets.add if into else profile.presets.remove)(*rows)
    return {row.pk for row in rows}
