"""Are the models coherent that a key or a team may use? Used by forms and the API."""

from __future__ import annotations

from django.core.exceptions import ValidationError

from models_registry.names import alias_problem

MOST = 64


def check_allowed(names: object) -> None:
    """Raises ValidationError with every fault. A name need not lead anywhere yet: it may be that of
    a model which is fetched tomorrow."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValidationError('Write a list of names, such as ["qwen*", "smollm2"].')
    if len(names) > MOST:
        raise ValidationError(f"At most {MOST} names can be kept here.")
    errors = [f"{name[:60]!r}: {problem}." for name in names if (problem := alias_problem(name))]
    if errors:
        raise ValidationError(errors)
    if len(set(names)) < len(names):
        raise ValidationError("A name stands there twice.")
