"""Is this row coherent? One set of rules, used by forms, import and commands alike."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from django.core.exceptions import ValidationError

from models_registry.catalogue import engine_catalogue
from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing
from models_registry.naming import name_problem, shards_problem
from models_registry.policy import policy_errors
from models_registry.preset_options import (
    COLUMNS,
    column_errors,
    column_options,
    combination_errors,
    extra_options,
)

if TYPE_CHECKING:
    from models_registry.models import Alias, ModelFile, Preset

FIELDS = {key: field for field, key in COLUMNS.items()}

LONGEST_OPTIONS = 64 << 10
"""Characters of a preset's extra options."""


def validate_name(name: str) -> None:
    if problem := name_problem(name):
        raise ValidationError(problem[0].upper() + problem[1:] + ".")


def validate_gpu_layers(value: str) -> None:
    if not re.fullmatch(r"auto|all|[0-9]{1,9}", value):
        raise ValidationError("Write a number of layers, `auto` or `all`.")


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
        return "A path cannot hold control characters."
    if not Path(path).is_absolute():
        return "Write the absolute path, from / on."
    try:
        found = Path(path).stat()
    except OSError as error:
        return f"This file cannot be read: {error.strerror}."
    if not stat.S_ISREG(found.st_mode):
        return "This is not a file: choose the GGUF itself (of a sharded model, its first shard)."
    if problem := shards_problem(Path(path).name):
        return f"This file {problem}."
    try:
        begins = _first_bytes(path, len(MAGIC))
    except PermissionError:
        return "This file cannot be read: give the account that runs Corral the right to."
    except OSError as error:
        return f"This file cannot be read: {error.strerror}."
    if begins != MAGIC:
        return "This is no GGUF file: it does not begin with the letters GGUF."
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


def check_preset(preset: Preset) -> None:
    """Raises ValidationError with every fault, each at its field."""
    from models_registry.models import Alias  # that module imports this one

    errors: dict[str, list[str]] = {}
    if Alias.objects.filter(name=preset.name).exists():
        errors["name"] = ["An alias has this name: choose another one, or delete the alias first."]
    for field, messages in _option_errors(preset).items():
        errors.setdefault(field, []).extend(messages)
    for field, message in policy_errors(preset).items():
        errors.setdefault(field, []).append(message)
    if errors:
        raise ValidationError(errors)


def _option_errors(preset: Preset) -> dict[str, list[str]]:
    """By field. Without an engine to ask, extra options cannot be accepted: they are unchecked."""
    if len(preset.extra_options) > LONGEST_OPTIONS:
        return {"extra_options": [f"At most {LONGEST_OPTIONS} characters can be kept here."]}
    try:
        catalogue = engine_catalogue(llama_server())
    except EngineMissing as error:
        if not preset.extra_options.strip():
            return {}
        return {"extra_options": [_sentence(f"These options cannot be checked now: {error}")]}
    errors = {
        field: [_sentence(str(error))] for field, error in column_errors(preset, catalogue).items()
    }
    columns = column_options(preset)
    options, extra = extra_options(preset.extra_options, catalogue, taken=columns)
    if extra:
        errors["extra_options"] = [_sentence(str(error)) for error in extra]
    valid = {key: value for key, value in columns.items() if FIELDS[key] not in errors}
    for key, fault in combination_errors(options | valid).items():
        field = FIELDS[key] if key in columns else "extra_options"
        errors.setdefault(field, []).append(_sentence(str(fault)))
    return errors


def _sentence(text: str) -> str:
    """A question keeps its own mark."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def check_alias(alias: Alias) -> None:
    from models_registry.models import Preset  # that module imports this one

    if Preset.objects.filter(name=alias.name).exists():
        raise ValidationError({"name": "A preset has this name: choose another one."})
