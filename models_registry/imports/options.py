"""Engine options as the columns and lines of a preset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError

from models_registry.models import Preset
from models_registry.options.preset_options import COLUMNS

_FIELDS = {key: field for field, key in COLUMNS.items()}


def fields_of(options: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """(columns of Preset by name, what cannot be taken). `options` are by canonical key, each value
    checked; what no column holds is a line of the extra options."""
    fields: dict[str, Any] = {}
    lines: list[str] = []
    notes: list[str] = []
    for key, value in options.items():
        column = _column(key, value)
        if column is not None:
            fields |= column
        elif not value.strip() or len(value.splitlines()) != 1 or value != value.strip():
            notes.append(
                f"{key} is not taken: a line of the extra options cannot hold its value (empty, of "
                "several lines, or with blanks around it)"
            )
        else:
            lines.append(f"{key} = {value}")
    if lines:
        fields["extra_options"] = "\n".join(lines)
    return fields, notes


def _column(key: str, value: str) -> dict[str, Any] | None:
    """None where no column can say it: -1 as a count, say."""
    field = _FIELDS.get(key)
    if field is None:
        return None
    if key == "embeddings":
        return {field: value == "true"}
    column: Any = Preset._meta.get_field(field)
    try:
        return {field: column.clean(value, None)}
    except ValidationError:
        return None
