"""What a preset would take with other contexts, or other layers on devices, by the headers of its
files: for the ledger to say what of it would fit. Blocking."""

from __future__ import annotations

from models_registry.engines import EngineKind
from models_registry.launch import LaunchSpec
from scheduler.protocol import Ladder

from .contexts import ladder_of_contexts
from .estimating import open_shape_of
from .measuring import contexts_of_spec, model_of
from .placement import divided, gpu_layers, is_open
from .shapes import plain

MOST_STEPS = 9
"""Of layers on devices."""


def ladder_of(spec: LaunchSpec) -> Ladder | None:
    """None for what llama-server does not run. Raises UnreadableHeader."""
    if spec.engine.kind != EngineKind.LLAMA_SERVER:
        return None
    model = model_of(spec)
    options = spec.memory_options
    own = contexts_of_spec(spec)
    contexts = ladder_of_contexts(options, trained=model.header.context_train)
    contexts = tuple(sorted({*contexts, *own}))[-32:]
    shape = open_shape_of(spec, model, contexts)
    layers = len(shape.layers)
    counts = sorted({round(layers * step / (MOST_STEPS - 1)) for step in range(MOST_STEPS)})
    said = None
    if not is_open(options):
        said = divided(min(gpu_layers(options), layers), spec.devices, options)
    return Ladder(
        plain(shape, unreported=model.unreported),
        own[0] if len(own) == 1 else 0,
        said,
        [divided(count, spec.devices, options) for count in counts] if spec.devices else [],
    )
