"""Is this row coherent? One set of rules, used by forms, import and commands alike."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from models_registry.child_environment import environment_errors
from models_registry.engine_checks import engine_errors, foreign_option_errors
from models_registry.engine_path import llama_server
from models_registry.engines import EngineKind
from models_registry.errors import EngineMissing, OptionError
from models_registry.names import alias_problem
from models_registry.naming import name_problem, shards_problem
from models_registry.options.catalogue import engine_catalogue
from models_registry.options.inheritance import DEEPEST, global_row, stored_bases
from models_registry.options.policy import effective_policy, policy_errors
from models_registry.options.policy_keys import POLICY_KEYS
from models_registry.options.preset_options import (
    COLUMNS,
    column_errors,
    column_options,
    combination_errors,
    read_lines,
)
from models_registry.options.refused_options import PRESET_FIELDS
from models_registry.request_filters import filter_errors, values_errors

if TYPE_CHECKING:
    from models_registry.models import Alias, GlobalPreset, ModelFile, Preset

FIELDS = {key: field for field, key in COLUMNS.items()}

LONGEST_OPTIONS = 64 << 10
"""Characters of a preset's extra options."""


def validate_name(name: str) -> None:
    if problem := name_problem(name):
        raise ValidationError(problem[0].upper() + problem[1:] + ".")


def validate_alias_name(name: str) -> None:
    if problem := alias_problem(name):
        raise ValidationError(problem[0].upper() + problem[1:] + ".")


def validate_gpu_layers(value: str) -> None:
    if not re.fullmatch(r"auto|all|[0-9]{1,9}", value):
        raise ValidationError(_("Write a number of layers, `auto` or `all`."))


def check_model_file(model_file: ModelFile) -> None:
    """The paths name readable GGUFs, absolutely.

    One that is as it was stored is not looked at: its file may be gone for now (a disk that is not
    mounted), and the rest of the row can be edited all the same.
    """
    errors = {}
    stored = type(model_file).objects.filter(pk=model_file.pk).first() if model_file.pk else None
    for field in ("path", "mmproj", "draft"):
        path = getattr(model_file, field)
        if stored is not None and path == getattr(stored, field):
            continue
        if path and (problem := file_problem(path)):
            errors[field] = problem
    if errors:
        raise ValidationError(errors)


def file_problem(path: str) -> str:
    """Why `path` is no model that the engine could read; empty when it may be one.

    Never waits for what is behind the path: a pipe or a device is not opened.
    """
    if any(ord(character) < 32 for character in path):
        return _("A path cannot hold control characters.")
    if not Path(path).is_absolute():
        return _("Write the absolute path, from / on.")
    try:
        found = Path(path).stat()
    except OSError as error:
        return _("This file cannot be read: %(strerror)s.") % {"strerror": error.strerror}
    if not stat.S_ISREG(found.st_mode):
        return _(
            "This is not a file: choose the GGUF itself (of a sharded model, its first shard)."
        )
    if problem := shards_problem(Path(path).name):
        return _("This file %(problem)s.") % {"problem": problem}
    try:
        begins = _first_bytes(path, len(MAGIC))
    except PermissionError:
        return _("This file cannot be read: give the account that runs Corral the right to.")
    except OSError as error:
        return _("This file cannot be read: %(strerror)s.") % {"strerror": error.strerror}
    if begins != MAGIC:
        return _("This is no GGUF file: it does not begin with the letters GGUF.")
    return ""


MAGIC = b"GGUF"


def _first_bytes(path: str, count: int) -> bytes:
    """Of a regular file; nothing of what took its place meanwhile."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.read(descriptor, count) if regular else b""
    finally:
        os.close(descriptor)


class Beside(Protocol):
    """The rows beside which a preset or an alias is to stand."""

    def is_alias(self, name: str) -> bool: ...

    def is_preset(self, name: str) -> bool: ...

    def of_all(self) -> GlobalPreset | None: ...


class _InDatabase:
    def is_alias(self, name: str) -> bool:
        from models_registry.models import Alias  # that module imports this one

        return Alias.objects.filter(name=name).exists()

    def is_preset(self, name: str) -> bool:
        from models_registry.models import Preset  # that module imports this one

        return Preset.objects.filter(name=name).exists()

    def of_all(self) -> GlobalPreset | None:
        return global_row()


_IN_DATABASE = _InDatabase()


def check_preset(preset: Preset, beside: Beside = _IN_DATABASE) -> None:
    """Raises ValidationError with every fault, each at its field."""
    errors: dict[str, list[str]] = {}
    if beside.is_alias(preset.name):
        errors["name"] = [
            _("An alias has this name: choose another one, or delete the alias first.")
        ]
    for faults in (_option_errors(preset), engine_errors(preset)):
        for field, messages in faults.items():
            errors.setdefault(field, []).extend(messages)
    for field, message in _layer_errors(preset, beside).items():
        errors.setdefault(field, []).append(message)
    if found := environment_errors(preset.environment):
        errors["environment"] = found
    errors |= filter_errors(preset)
    if errors:
        raise ValidationError(errors)


def _layer_errors(preset: Preset, beside: Beside) -> dict[str, str]:
    """Of its bases, and of what it and they say together to the scheduler."""
    try:
        bases = stored_bases(preset)
        if len(bases) + _heirs_deep(preset) > DEEPEST:
            raise OptionError(
                "base",
                _("more than %(DEEPEST)s presets would stand one upon the other")
                % {"DEEPEST": DEEPEST},
            )
        return policy_errors(effective_policy(preset, bases, beside.of_all()))
    except OptionError as error:
        if error.option == "base":
            return {"base": _sentence(error.message[0].upper() + error.message[1:])}
        return {"extra_options": _sentence(str(error))}


def _heirs_deep(preset: Preset) -> int:
    """How many presets stand one upon the other on this one, as far as that matters."""
    if preset.base_id is None or preset.pk is None:
        return 0
    deep, level = 0, [preset.pk]
    while level and deep <= DEEPEST:
        heirs = type(preset).objects.filter(base_id__in=level)
        level = list(heirs.values_list("pk", flat=True))
        deep += bool(level)
    return deep


def check_global_preset(row: GlobalPreset) -> None:
    """Raises ValidationError with every faulty line of its options."""
    if len(row.options) > LONGEST_OPTIONS:
        raise ValidationError(
            {
                "options": _("At most %(LONGEST_OPTIONS)s characters can be kept here.")
                % {"LONGEST_OPTIONS": LONGEST_OPTIONS}
            }
        )
    if not row.options.strip():
        return
    try:
        lines = read_lines(row.options, engine_catalogue(llama_server()), policy=POLICY_KEYS)
    except EngineMissing as error:
        raise ValidationError(
            {
                "options": _sentence(
                    _("These options cannot be checked now: %(error)s") % {"error": error}
                )
            }
        ) from error
    if lines.errors:
        raise ValidationError({"options": [_sentence(str(error)) for error in lines.errors]})


def _option_errors(preset: Preset) -> dict[str, list[str]]:
    """By field. Without an engine to ask, extra options cannot be accepted: they are unchecked."""
    if len(preset.extra_options) > LONGEST_OPTIONS:
        return {
            "extra_options": [
                _("At most %(LONGEST_OPTIONS)s characters can be kept here.")
                % {"LONGEST_OPTIONS": LONGEST_OPTIONS}
            ]
        }
    if preset.engine != EngineKind.LLAMA_SERVER:
        return foreign_option_errors(preset)
    try:
        catalogue = engine_catalogue(llama_server())
    except EngineMissing as error:
        if not preset.extra_options.strip():
            return {}
        return {
            "extra_options": [
                _sentence(_("These options cannot be checked now: %(error)s") % {"error": error})
            ]
        }
    errors = {
        field: [_sentence(str(error))] for field, error in column_errors(preset, catalogue).items()
    }
    columns = column_options(preset)
    lines = read_lines(preset.extra_options, catalogue, taken=columns)
    lines.errors += _said_twice(preset, lines.policy)
    if lines.errors:
        errors["extra_options"] = [_sentence(str(error)) for error in lines.errors]
    valid = {key: value for key, value in columns.items() if FIELDS[key] not in errors}
    for key, fault in combination_errors(lines.options | valid).items():
        field = FIELDS[key] if key in columns else "extra_options"
        errors.setdefault(field, []).append(_sentence(str(fault)))
    return errors


def _said_twice(preset: Preset, policy: Iterable[str]) -> list[OptionError]:
    keys = [POLICY_KEYS[key] for key in policy]
    return [
        OptionError(
            key.key,
            _("the field %(value)s is set as well: clear one of them")
            % {"value": PRESET_FIELDS[key.key]},
        )
        for key in keys
        if key.column and getattr(preset, key.field) != key.unset
    ]


def _sentence(text: str) -> str:
    """A question keeps its own mark."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def check_alias(alias: Alias, beside: Beside = _IN_DATABASE) -> None:
    errors = {}
    if beside.is_preset(alias.name):
        errors["name"] = [_("A preset has this name: choose another one.")]
    if found := values_errors(alias.request_set):
        errors["request_set"] = found
    if errors:
        raise ValidationError(errors)
