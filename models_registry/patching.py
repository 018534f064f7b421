"""Options and policy as `key = value`, turned into a preset's own fields: what an import does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError

from models_registry.models import Preset
from models_registry.options.catalogue import Catalogue
from models_registry.options.policy import said_by_preset
from models_registry.options.policy_keys import POLICY_KEYS, PolicyKey, policy_text_of, policy_value
from models_registry.options.preset_options import COLUMNS, preset_layer, without

_FIELDS = {key: field for field, key in COLUMNS.items()}


def own_words(preset: Preset, catalogue: Catalogue) -> dict[str, str]:
    """What a person has set of it, options and policy, by key. Raises OptionError."""
    (_, patch) = said_by_preset(preset)
    keys = {key.field: key for key in POLICY_KEYS.values()}
    policy = {
        keys[field].key: policy_text_of(keys[field], value) for field, value in patch.values.items()
    }
    return preset_layer(preset, catalogue) | policy


def changes(preset: Preset, words: Mapping[str, str], catalogue: Catalogue) -> dict[str, Any]:
    """The fields of `preset` that have to change for it to say `words`, which are valid, as
    models_registry.editing takes them. Raises OptionError for what it says now."""
    now = own_words(preset, catalogue)
    fields: dict[str, Any] = {}
    lines: list[str] = []
    new = {key: text for key, text in words.items() if now.get(key) != text}
    for key, text in new.items():
        field, value = _as_field(key, text)
        if field:
            fields[field] = value
        if not field or value == _unset(field):
            lines.append(f"{key} = {text}")
    extra = without(preset.extra_options, new, catalogue)
    extra = "\n".join([extra, *lines] if extra else lines)
    if extra != preset.extra_options:
        fields["extra_options"] = extra
    return fields


def _as_field(key: str, text: str) -> tuple[str, Any]:
    """(the column for `key`, its value for `text`); the column unset where it cannot say that, and
    nothing where there is none."""
    if policy := POLICY_KEYS.get(key):
        return _policy_field(policy, text)
    field = _FIELDS.get(key, "")
    if not field:
        return "", None
    if field == "embeddings":
        return field, text == "true"
    column: Any = Preset._meta.get_field(field)
    try:
        value = column.clean(text, None)
    except ValidationError:
        return field, None
    return field, value if str(value) == text else None


def _policy_field(key: PolicyKey, text: str) -> tuple[str, Any]:
    if not key.column:
        return "", None
    value = policy_value(key.key, text)
    return key.field, list(value) if isinstance(value, tuple) else value


def _unset(field: str) -> Any:
    key = POLICY_KEYS.get(field.replace("_", "-"))
    return key.unset if key is not None else None
