"""What a preset of another engine than llama-server is started with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from models_registry import kept_secrets, python_server
from models_registry.engine_checks import python_lines
from models_registry.engines import (
    DECLARED,
    DEFAULT_PARALLEL,
    HEALTH,
    MIB,
    EngineKind,
    EngineSetup,
    command_words,
    declared_problem,
    url_problem,
)
from models_registry.errors import OptionError
from models_registry.model_paths import FilesState
from models_registry.models import Preset
from models_registry.options.preset_options import column_options


def setup_of(preset: Preset) -> EngineSetup:
    """Raises OptionError for what a form would not have taken."""
    kind = EngineKind(preset.engine)
    if kind is EngineKind.COMMAND:
        command_words(preset.command_line)
    if kind is EngineKind.UPSTREAM and (problem := url_problem(preset.upstream_url)):
        raise OptionError("upstream URL", problem)
    if preset.upstream_key and not kept_secrets.read(preset.upstream_key):
        raise OptionError("upstream key", "it is kept no longer: write it again")
    if problem := declared_problem(preset.declared_memory):
        raise OptionError("declared memory", problem)
    return EngineSetup(
        kind=kind,
        command_line=preset.command_line,
        health_path=_health_path(preset),
        options=_options(preset) if kind is EngineKind.LLAMA_CPP_PYTHON else {},
        url=preset.upstream_url.rstrip("/"),
        model=preset.upstream_model or preset.name,
        key=preset.upstream_key,
        declared={device: size * MIB for device, size in preset.declared_memory.items()},
    )


def _health_path(preset: Preset) -> str:
    if preset.engine == EngineKind.LLAMA_CPP_PYTHON:
        return python_server.HEALTH
    return preset.health_path or HEALTH


def _options(preset: Preset) -> dict[str, str]:
    """What its own columns and lines say; what other layers say was written for llama-server.
    Raises OptionError."""
    options = {key: value for key, value in column_options(preset).items() if key != "parallel"}
    return python_server.checked(options | python_lines(preset.extra_options))


def slots_of(lineage: Sequence[Preset]) -> int:
    """The nearest that says it; the preset itself is the last of its lineage. llama-cpp-python's
    server has one."""
    if lineage[-1].engine == EngineKind.LLAMA_CPP_PYTHON:
        return 1
    for row in reversed(lineage):
        if row.parallel is not None:
            return row.parallel
    return DEFAULT_PARALLEL[lineage[-1].engine]


def memory_fingerprint_of(
    setup: EngineSetup, environment: Mapping[str, str], files: FilesState
) -> str:
    """Under which what it took is remembered; empty for what takes nothing of this machine."""
    if setup.kind not in DECLARED or files.problem:
        return ""
    told = json.dumps(
        [setup.told, sorted(setup.declared.items()), sorted(environment.items()), files.stamp]
    )
    return hashlib.sha256(told.encode(errors="surrogatepass")).hexdigest()[:32]
