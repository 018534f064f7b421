"""What a preset changes in the body of a request before its child reads it. Pure.

First its parameters are stripped, then defaults fill what is not there, then values are set, last
those of the alias by which the client asked. Only names at the body's top level are meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from models_registry.models import Preset

PROTECTED: dict[str, str] = {
    "model": "the client chooses its model by it",
    "stream": "a client can read only the kind of answer that it asked for",
}
"""Name of a parameter that no filter may touch, and why."""

MOST_PARAMETERS = 64
LONGEST_VALUES = 16 << 10
"""Bytes of JSON in one field: they travel with every grant of a lease."""

FIELDS = ("request_strip", "request_defaults", "request_set")

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class RequestFilters:
    """Those of one preset, its bases' included; `aliases` holds what is set by the name asked."""

    strip: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    set: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def for_name(self, name: str) -> RequestFilters | None:
        """What counts for a request that asks by `name`; None when it stays as it is."""
        values = {**self.set, **self.aliases.get(name, {})}
        if not (self.strip or self.defaults or values):
            return None
        return RequestFilters(self.strip, self.defaults, values)


NO_FILTERS = RequestFilters()


def filters_of(
    lineage: Sequence[Preset], aliases: Mapping[str, Mapping[str, Any]]
) -> RequestFilters:
    """`lineage` is the preset with its bases before it, the farthest first: what any of them strips
    is stripped, and of each value the nearest counts. `aliases` without values are left out."""
    strip: dict[str, None] = {}
    defaults: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for preset in lineage:
        strip |= dict.fromkeys(stripped_names(preset.request_strip))
        defaults |= preset.request_defaults
        values |= preset.request_set
    by_alias = {name: found for name, each in aliases.items() if (found := _unprotected(each))}
    return RequestFilters(
        tuple(_unprotected(strip)), _unprotected(defaults), _unprotected(values), by_alias
    )


def _unprotected(values: Mapping[str, Any]) -> dict[str, Any]:
    """Forms let nothing else through; a row may have been written past them, and what cannot be
    sent would end who grants the lease."""
    return {
        name: value
        for name, value in values.items()
        if name not in PROTECTED and _encoded(value) is not None
    }


def _encoded(value: object) -> bytes | None:
    """As JSON in UTF-8; None for what is neither: NaN, half a surrogate pair, no JSON at all."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return None


def stripped_names(text: str) -> tuple[str, ...]:
    """The names in `text`, which has commas or ends of lines between them."""
    return tuple(name for part in re.split(r"[,\n]", text) if (name := part.strip()))


def filter_errors(preset: Preset) -> dict[str, list[str]]:
    """By field, what is wrong with the preset's own filters."""
    found = {
        "request_strip": strip_errors(preset.request_strip),
        "request_defaults": values_errors(preset.request_defaults),
        "request_set": values_errors(preset.request_set),
    }
    return {field: errors for field, errors in found.items() if errors}


def strip_errors(text: str) -> list[str]:
    return _names_errors(stripped_names(text))


def values_errors(values: object) -> list[str]:
    """Of `set parameters`, of `default parameters`, or of an alias's."""
    if not isinstance(values, dict):
        return [_('Write an object, such as {"temperature": 0.7}.')]
    errors = _names_errors(values)
    encoded = _encoded(values)
    if encoded is None:
        return [
            *errors,
            _(
                "These values cannot be written as JSON: NaN, Infinity, and half a surrogate pair "
                "(\\ud800 to \\udfff alone) are not in it."
            ),
        ]
    if len(encoded) > LONGEST_VALUES:
        errors.append(
            _("At most %(LONGEST_VALUES)s bytes of JSON can be kept here.")
            % {"LONGEST_VALUES": LONGEST_VALUES}
        )
    return errors


def _names_errors(names: Iterable[object]) -> list[str]:
    names = list(names)
    errors = [
        _("%(name)s cannot be changed: %(value)s.") % {"name": name, "value": PROTECTED[name]}
        for name in names
        if isinstance(name, str) and name in PROTECTED
    ]
    odd = [name for name in names if not isinstance(name, str) or not _NAME.fullmatch(name)]
    if odd:
        errors.append(
            _(
                "%(value)s is no parameter's name: use letters, digits and _ . -, 64 of them "
                "at most."
            )
            % {"value": f"{str(odd[0])[:70]!r}"}
        )
    if len(names) > MOST_PARAMETERS:
        errors.append(
            _("At most %(MOST_PARAMETERS)s parameters can be named here.")
            % {"MOST_PARAMETERS": MOST_PARAMETERS}
        )
    return errors
