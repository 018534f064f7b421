"""Are the aliases coherent that a person gives to a key or a team? Used by forms and the API."""

from __future__ import annotations

from django.core.exceptions import ValidationError

from models_registry.models import Alias, Preset
from models_registry.names import alias_problem

MOST = 64


def check_own_aliases(aliases: object) -> None:
    """Raises ValidationError with every fault. An alias may have the name of a preset or of another
    alias: it is this key's, or this team's, and goes before them."""
    if not isinstance(aliases, dict) or not all(isinstance(to, str) for to in aliases.values()):
        raise ValidationError('Write an object of names, such as {"gpt-4o*": "smollm2"}.')
    if len(aliases) > MOST:
        raise ValidationError(f"At most {MOST} aliases can be kept here.")
    errors = [f"{name[:60]!r}: {problem}." for name in aliases if (problem := alias_problem(name))]
    wanted = set(aliases.values())
    known = {*Preset.objects.filter(name__in=wanted).values_list("name", flat=True)}
    known |= {*Alias.objects.filter(name__in=wanted).values_list("name", flat=True)}
    errors += [
        f"{name[:60]!r} leads to {to[:60]!r}, and no preset or alias is called so."
        for name, to in aliases.items()
        if to not in known
    ]
    if errors:
        raise ValidationError(errors)
