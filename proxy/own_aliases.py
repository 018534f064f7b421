"""Are the aliases coherent that a person gives to a key or a team? Used by forms and the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.exceptions import ValidationError

from models_registry.models import Alias, Preset
from models_registry.names import alias_problem

if TYPE_CHECKING:
    from proxy.models import ApiKey, Team

MOST = 64


def check_own_aliases(aliases: object) -> None:
    """Raises ValidationError with every fault. An alias may have the name of a preset or of another
    alias: it is this key's, or this team's, and goes before them."""
    if not isinstance(aliases, dict) or not all(isinstance(to, str) for to in aliases.values()):
        raise ValidationError('Write an object of names, such as {"gpt-4o*": "smollm2"}.')
    if len(aliases) > MOST:
        raise ValidationError(f"At most {MOST} aliases can be kept here.")
    errors = [f"{name[:60]!r}: {problem}." for name in aliases if (problem := alias_problem(name))]
    if errors:
        raise ValidationError(errors)


def check_where_they_lead(row: ApiKey | Team) -> None:
    """Raises ValidationError for each that leads nowhere. One that is as it was stored, or as it is
    in the key that this one replaces, is not looked at: its preset may have gone since, and the
    rest can be edited all the same. Nor is what is no name at all, which the field's own check
    tells."""
    if not isinstance(row.aliases, dict):
        return
    before = row.pk or getattr(row, "replaces_id", None)
    rows = type(row)._default_manager.filter(pk__in=[before] if before else [])
    stored = rows.values_list("aliases", flat=True).first()
    new = {
        name: to
        for name, to in row.aliases.items()
        if isinstance(to, str) and (stored or {}).get(name) != to
    }
    wanted = set(new.values())
    if not wanted:
        return
    known = {*Preset.objects.filter(name__in=wanted).values_list("name", flat=True)}
    known |= {*Alias.objects.filter(name__in=wanted).values_list("name", flat=True)}
    errors = [
        f"{name[:60]!r} leads to {to[:60]!r}, and no preset or alias is called so."
        for name, to in new.items()
        if to not in known
    ]
    if errors:
        raise ValidationError({"aliases": errors})
