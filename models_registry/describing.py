"""What would be started for a preset, told option by option."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from models_registry import engines, ports
from models_registry.device_names import device_warnings
from models_registry.engine_path import llama_server
from models_registry.engines import EngineKind
from models_registry.errors import EngineMissing, ManagementRefused, OptionError
from models_registry.launch import (
    effective_options,
    effective_policy_of,
    launch_spec_of,
    option_notes,
)
from models_registry.models import Preset
from models_registry.options.catalogue import engine_catalogue
from models_registry.options.command_line import Layer, render
from models_registry.options.policy import GATEWAYS_OWN, Policy, gateways_own
from models_registry.options.policy_keys import POLICY_KEYS, policy_text_of


def described(preset: Preset) -> dict[str, Any]:
    """By the functions that also start it. Raises ManagementRefused when it cannot be started."""
    if preset.engine != EngineKind.LLAMA_SERVER:
        return _other_described(preset)
    try:
        catalogue = engine_catalogue(llama_server())
        options = effective_options(preset, catalogue)
        policy = effective_policy_of(preset)
        argv = ports.scheduler().command_line(preset.name, render(options, catalogue))
    except (OptionError, EngineMissing) as error:
        raise ManagementRefused(
            "preset_invalid",
            _("%(name)s cannot be started: %(error)s") % {"name": preset.name, "error": error},
        ) from error
    return {
        "preset": preset.name,
        "options": [
            _told(option.key, option.value, option.layer, option.where) for option in options
        ],
        "policy": list(_policy_told(policy)),
        "notes": option_notes(preset, catalogue),
        "warnings": device_warnings({option.key: option.value for option in options}),
        "argv": argv,
        "command_line": shlex.join(argv),
    }


def warnings_of(preset: Preset) -> list[str]:
    """What to tell whoever saves it, though it can be saved; nothing where it cannot be started."""
    if preset.engine != EngineKind.LLAMA_SERVER:
        return []
    try:
        options = effective_options(preset, engine_catalogue(llama_server()))
    except (OptionError, EngineMissing):
        return []
    return device_warnings({option.key: option.value for option in options})


def _other_described(preset: Preset) -> dict[str, Any]:
    """Of another engine than llama-server: a command line as it was written, but for the files."""
    spec = launch_spec_of(preset)
    if spec.problem:
        raise ManagementRefused(
            "preset_invalid",
            _("%(name)s cannot be started: %(problem)s")
            % {"name": preset.name, "problem": spec.problem},
        )
    layer = Layer.PRESET
    options = {**spec.engine.options, "parallel": str(spec.parallel)}
    argv = engines.run_words(spec.engine, model=spec.model_path, preset=spec.preset)
    return {
        "preset": preset.name,
        "options": [_told(key, value, layer, layer.label) for key, value in options.items()],
        "policy": list(_policy_told(effective_policy_of(preset))),
        "notes": [],
        "warnings": [],
        "argv": argv,
        "command_line": shlex.join(argv),
    }


def _policy_told(policy: Policy) -> Iterator[dict[str, Any]]:
    """What the scheduler goes by, as `options` are told."""
    for key in POLICY_KEYS.values():
        by = policy.said_by.get(key.field)
        value = getattr(policy, key.field)
        if by is None and key.field in GATEWAYS_OWN:
            yield _told(key.key, gateways_own(key.field), Layer.DEFAULT, "gateway")
        else:
            layer = by.layer if by else Layer.DEFAULT
            where = by.where if by else layer.label
            yield _told(key.key, policy_text_of(key, value), layer, where)


def _told(key: str, value: str, layer: Layer, where: str) -> dict[str, Any]:
    locked = layer is Layer.COMMAND_LINE
    return {
        "key": key,
        "value": value,
        "layer": layer.name.lower(),
        "where": where,
        "locked": locked,
    }
