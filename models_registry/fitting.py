"""What would fit: asked of the scheduler for a preset as it is saved, or as it is being edited."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from models_registry import ports
from models_registry.engine_path import llama_server
from models_registry.engine_version import engine_version
from models_registry.engines import EngineKind
from models_registry.errors import ManagementRefused
from models_registry.gguf.header import UnreadableHeader
from models_registry.launch import LaunchSpec, devices_of, launch_spec_of
from models_registry.models import Preset
from models_registry.ports import FitAnswer, TrialNews


def fit_of(preset: Preset) -> FitAnswer:
    """As it is saved; by its header where the scheduler does not know yet what it takes. Raises
    what `fit_edited` raises."""
    spec = launch_spec_of(preset)
    if spec.engine.kind == EngineKind.UPSTREAM:
        return ports.takes_nothing(spec.preset)
    _refuse_unknown_devices(spec)
    answer = ports.scheduler().fit(preset.name)
    is_known = not answer.estimated or answer.now.kind or answer.empty.kind
    return answer if is_known else fit_edited(preset)


def tried_edited(preset: Preset) -> AsyncGenerator[TrialNews]:
    """A trial of it as it is now, saved or not. Raises what `fit_edited` raises."""
    spec = _startable(preset)
    if spec.engine.kind == EngineKind.UPSTREAM:
        told = "it runs on a remote server: there is nothing to load; test the connection instead"
        raise ManagementRefused("preset_invalid", told, "engine")
    try:
        return ports.scheduler().tried(spec)
    except UnreadableHeader as error:
        raise _unreadable(error) from error


def fit_edited(preset: Preset, *, ladders: bool = False) -> FitAnswer:
    """As it is now, saved or not; a model that was never measured is read, which takes a moment.
    Raises ManagementRefused when it could not be started, and what `fit_of` raises."""
    spec = _startable(preset)
    if spec.engine.kind == EngineKind.UPSTREAM:
        return ports.takes_nothing(spec.preset)
    try:
        return ports.scheduler().fit_edited(spec, ladders=ladders)
    except UnreadableHeader as error:
        raise _unreadable(error) from error


def _startable(preset: Preset) -> LaunchSpec:
    spec = launch_spec_of(preset)
    if spec.problem:
        name = preset.name or "it"
        raise ManagementRefused("preset_invalid", f"{name} cannot be started: {spec.problem}")
    if spec.engine.kind != EngineKind.UPSTREAM:
        _refuse_unknown_devices(spec)
    return spec


def _unreadable(error: UnreadableHeader) -> ManagementRefused:
    return ManagementRefused("preset_invalid", f"the model cannot be read: {error}", "model_file")


def _refuse_unknown_devices(spec: LaunchSpec) -> None:
    """The engine ends at once for a device that is not there."""
    if "device" not in spec.memory_options:
        return
    others = {key: value for key, value in spec.memory_options.items() if key != "device"}
    known = devices_of(others, engine_version(llama_server()))
    if missing := [each for each in spec.devices if each not in known]:
        there = f"there are: {', '.join(known)}" if known else "there is none beside the host"
        message = f"no such device here: {', '.join(missing)}; {there}"
        raise ManagementRefused("preset_invalid", message, "extra_options")
