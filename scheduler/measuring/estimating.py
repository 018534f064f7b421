"""The shape of a preset that is not measured, by the headers of its files (L5). Blocking: they are
read by a program of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from models_registry import measurements
from models_registry.gguf.estimate import estimate, estimate_projector
from models_registry.gguf.header import read_header
from models_registry.launch import LaunchSpec
from scheduler.core.placing import need_of
from scheduler.core.sizes import (
    ON_HOST,
    DeviceId,
    FileId,
    FixedShape,
    Kind,
    Layer,
    OpenShape,
    Placement,
    Shape,
)
from scheduler.runtime.devices.rpc_names import is_rpc
from scheduler.runtime.figures import declared_shape, is_declared

from .measuring import contexts_of_spec, model_of
from .placement import equal_parts, gpu_layers, is_open
from .shapes import plain
from .shaping import Model


def shape_data_of(spec: LaunchSpec) -> tuple[dict[str, Any], bool]:
    """What shapes.shape_of takes, and whether it is an estimate: as measured, where it is. Raises
    UnreadableHeader."""
    if is_declared(spec):
        return plain(declared_shape(spec).shape, unreported=0), False
    stored = measurements.shapes_of([spec]).get(spec.memory_fingerprint)
    if stored is not None:
        return dict(stored.data), stored.estimated
    return estimated_data(spec), True


def estimated_data(spec: LaunchSpec) -> dict[str, Any]:
    """Raises UnreadableHeader."""
    return plain(estimated_shape(spec), unreported=model_of(spec).unreported)


def estimated_shape(spec: LaunchSpec) -> Shape:
    """Raises UnreadableHeader."""
    model, contexts = model_of(spec), contexts_of_spec(spec)
    shape = open_shape_of(spec, model, contexts)
    if is_open(spec.memory_options):
        return shape
    placement = _said(model, shape)
    return FixedShape(
        tuple((context, need_of(shape, placement, step)) for step, context in enumerate(contexts))
    )


def open_shape_of(spec: LaunchSpec, model: Model, contexts: tuple[int, ...]) -> OpenShape:
    found = estimate(model.header, model.options, contexts)
    projector = _projector(model)
    on_device = model.options.get("mmproj-offload") != "false"
    return OpenShape(
        contexts=contexts,
        layers=tuple(
            Layer(layer.weights, layer.cache, largest)
            for layer, largest in zip(found.layers, model.header.largest, strict=True)
        ),
        devices=tuple(map(DeviceId, spec.devices)),
        file=FileId(model.file if model.is_mapped else ""),
        mapped=tuple(model.host_weights(count) for count in range(len(found.layers) + 1)),
        device_compute=found.device_compute,
        host_compute=found.host_compute,
        host_fixed=model.unreported + found.outputs + (0 if on_device else projector),
        receiving=tuple(DeviceId(device) for device in spec.devices if is_rpc(device)),
        first_device_fixed=_on_first_device(_draft(model, contexts), projector if on_device else 0),
    )


def _projector(model: Model) -> int:
    path = model.options.get("mmproj")
    if not path:
        return 0
    found = estimate_projector(read_header(Path(path)))
    return found.weights + found.compute


def _on_first_device(draft: tuple[int, ...], projector: int) -> tuple[int, ...]:
    return tuple(size + projector for size in draft) if projector or any(draft) else ()


def _draft(model: Model, contexts: tuple[int, ...]) -> tuple[int, ...]:
    """All of a draft model, at each context."""
    if model.draft is None:
        return (0,) * len(contexts)
    options = {
        **model.options,
        "cache-type-k": model.options.get("cache-type-k-draft", "f16"),
        "cache-type-v": model.options.get("cache-type-v-draft", "f16"),
    }
    found = estimate(model.draft, options, contexts)
    weights = sum(layer.weights for layer in found.layers) + found.outputs
    return tuple(
        weights + compute + sum(layer.cache[step] for layer in found.layers)
        for step, compute in enumerate(found.device_compute)
    )


def _said(model: Model, shape: OpenShape) -> Placement:
    """As many layers on devices as its options say, in equal parts."""
    layers = min(gpu_layers(model.options), len(shape.layers))
    if not shape.devices or not layers:
        return ON_HOST
    counts = equal_parts(layers, len(shape.devices))
    kind = Kind.PARTIAL if layers < len(shape.layers) else Kind.SPREAD
    return Placement(kind, tuple(zip(shape.devices, counts, strict=False)))
