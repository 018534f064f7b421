"""A preset as clients of Ollama describe one: of another model, or of files they handed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from models_registry import editing
from models_registry.access import Asker
from models_registry.downloads import uploads
from models_registry.errors import ManagementRefused
from models_registry.imports.modelfile import NOT_TAKEN, parameters_of
from models_registry.models import Preset, Source
from models_registry.names import spellings
from models_registry.naming import name_problem
from models_registry.options.preset_options import COLUMNS
from models_registry.registration import register_model
from models_registry.spellings import preset_called

_UNSET: Mapping[str, Any] = {
    **dict.fromkeys(COLUMNS),
    "extra_options": "",
    "request_defaults": {},
}
"""What a model that is made anew loses of its former self."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """`files` are digests by file name. `left_out` are parts of the wish, in a Modelfile's words,
    that have no counterpart here: they are told, and the rest is done."""

    name: str
    of: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    system: str = ""
    left_out: tuple[str, ...] = ()


def create(wanted: Wanted, asker: Asker) -> list[str]:
    """Sentences on what was not taken. Raises ManagementRefused, ImportRefused, NotRegistered or
    ValidationError, and then nothing has changed."""
    if problem := name_problem(wanted.name):
        raise ManagementRefused("invalid_request", f"invalid model name: {problem}")
    fields, notes = parameters_of(wanted.parameters)
    if wanted.system:
        fields["request_defaults"] = {**fields.get("request_defaults", {}), "system": wanted.system}
    with transaction.atomic():
        if wanted.files:
            _of_files(wanted, fields, asker)
        else:
            _of_model(wanted, fields, asker)
    return [*(f"{word} is not taken: {NOT_TAKEN[word]}" for word in wanted.left_out), *notes]


def _of_model(wanted: Wanted, fields: Mapping[str, Any], asker: Asker) -> None:
    base = preset_called(wanted.of)
    if base is None:
        raise ManagementRefused("not_found", f"model '{wanted.of}' not found: pull it first")
    there = preset_called(wanted.name)
    if there is None:
        stands_on = {"base": base.name, "model_file": base.model_file_id}
        editing.create_preset({"name": wanted.name, **stands_on, **fields}, asker)
        return
    _check_made_by_hand(there, wanted.name)
    if there.pk == base.pk:
        editing.change_preset(there.name, fields, asker)
        return
    stands_on = {"base": base.name, "model_file": base.model_file_id}
    editing.change_preset(there.name, {**_UNSET, **stands_on, **fields}, asker)


def _of_files(wanted: Wanted, fields: Mapping[str, Any], asker: Asker) -> None:
    if preset_called(wanted.name) is not None:
        raise ManagementRefused(
            "conflict", f"model '{wanted.name}' is there already: delete it first"
        )
    model, mmproj = "", ""
    for name, digest in wanted.files.items():
        place = uploads.found(digest)
        if place is None:
            raise ManagementRefused(
                "invalid_request", f"{name}: no blob {digest} has come: POST /api/blobs/{digest}"
            )
        if "mmproj" in name.lower():
            mmproj = str(place)
        elif model:
            raise ManagementRefused(
                "invalid_request", "`files` are one GGUF, and one with mmproj in its name beside it"
            )
        else:
            model = str(place)
    if not model:
        raise ManagementRefused("invalid_request", "`files` name no model, only a projector")
    register_model(model, wanted.name, Source.DOWNLOAD, mmproj=mmproj)
    if fields:
        editing.change_preset(wanted.name, fields, asker)


def copy(source: str, destination: str, asker: Asker) -> None:
    """Raises ManagementRefused or ValidationError."""
    found = preset_called(source)
    if found is None:
        raise ManagementRefused("not_found", f"model '{source}' not found")
    if problem := name_problem(destination):
        raise ManagementRefused("invalid_request", f"invalid model name: {problem}")
    if preset_called(destination) is not None:
        raise ManagementRefused(
            "conflict", f"model '{destination}' is there already: delete it first"
        )
    editing.clone_preset(found.name, destination, asker)


def _check_made_by_hand(preset: Preset, name: str) -> None:
    is_alias = preset.name not in spellings(name)
    if is_alias or preset.source != Source.ADMIN:
        what = f"an alias of '{preset.name}'" if is_alias else "there already"
        raise ManagementRefused(
            "conflict", f"model '{name}' is {what}, and not made by hand: choose another name"
        )
