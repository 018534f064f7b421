"""What would fit: asked of the scheduler for a preset as it is saved, or as it is being edited."""

from __future__ import annotations

from models_registry import ports
from models_registry.errors import ManagementRefused
from models_registry.gguf.header import UnreadableHeader
from models_registry.launch import launch_spec_of
from models_registry.models import Preset
from models_registry.ports import FitAnswer


def fit_of(preset: Preset) -> FitAnswer:
    """As it is saved. Raises SchedulerUnavailable or SchedulerRefused."""
    return ports.scheduler().fit(preset.name)


def fit_edited(preset: Preset) -> FitAnswer:
    """As it is now, saved or not; a model that was never measured is read, which takes a moment.
    Raises ManagementRefused when it could not be started, and what `fit_of` raises."""
    spec = launch_spec_of(preset)
    if spec.problem:
        name = preset.name or "it"
        raise ManagementRefused("preset_invalid", f"{name} cannot be started: {spec.problem}")
    try:
        return ports.scheduler().fit_edited(spec)
    except UnreadableHeader as error:
        message = f"the model cannot be read: {error}"
        raise ManagementRefused("preset_invalid", message, "model_file") from error
