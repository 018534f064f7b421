"""What would count for a preset that said nothing itself: what its form shows in empty fields."""

from __future__ import annotations

from dataclasses import dataclass, field

from models_registry.cloning import unsaved_copy
from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing, OptionError
from models_registry.launch import NO_OPTIONS, effective_options, effective_policy_of
from models_registry.models import ModelFile, Preset
from models_registry.options.catalogue import Catalogue, engine_catalogue
from models_registry.options.command_line import EffectiveOption
from models_registry.options.policy import Policy
from models_registry.options.policy_keys import POLICY_KEYS
from models_registry.options.preset_options import COLUMNS


@dataclass(frozen=True, slots=True)
class Beneath:
    """Options by canonical key; both are empty where a layer cannot be read, which the page says
    where it shows the command line."""

    catalogue: Catalogue
    options: dict[str, EffectiveOption] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)


def beneath(preset: Preset) -> Beneath:
    """For one that is saved, or for a new one."""
    silent = _silent(preset)
    try:
        catalogue = engine_catalogue(llama_server())
    except EngineMissing:
        catalogue = NO_OPTIONS
    try:
        policy = effective_policy_of(silent)
        options = effective_options(silent, catalogue)
    except (EngineMissing, OptionError):
        return Beneath(catalogue)
    return Beneath(catalogue, {option.key: option for option in options}, policy)


def _silent(preset: Preset) -> Preset:
    silent = unsaved_copy(preset)
    silent.file_options = preset.file_options
    if preset.model_file_id is None:
        silent.model_file = ModelFile()
    silent.extra_options = ""
    for column in COLUMNS:
        setattr(silent, column, None)
    for key in POLICY_KEYS.values():
        if key.column:
            setattr(silent, key.field, key.unset)
    return silent
