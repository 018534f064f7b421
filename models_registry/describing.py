"""What would be started for a preset, told option by option."""

from __future__ import annotations

import shlex
from typing import Any

from models_registry import ports
from models_registry.catalogue import engine_catalogue
from models_registry.command_line import Layer, render
from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing, ManagementRefused, OptionError
from models_registry.launch import effective_options
from models_registry.models import Preset


def described(preset: Preset) -> dict[str, Any]:
    """By the functions that also start it. Raises ManagementRefused when it cannot be started."""
    try:
        catalogue = engine_catalogue(llama_server())
        options = effective_options(preset, catalogue)
        argv = ports.scheduler().command_line(preset.name, render(options, catalogue))
    except (OptionError, EngineMissing) as error:
        raise ManagementRefused(
            "preset_invalid", f"{preset.name} cannot be started: {error}"
        ) from error
    return {
        "preset": preset.name,
        "options": [
            {
                "key": option.key,
                "value": option.value,
                "layer": option.layer.name.lower(),
                "where": option.where,
                "locked": option.layer is Layer.COMMAND_LINE,
            }
            for option in options
        ],
        "argv": argv,
        "command_line": shlex.join(argv),
    }
