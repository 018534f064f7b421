"""Measure what a preset takes on each device, without its weights. Blocking: for a job's thread.

A preset whose options leave its context or its place open is measured at several contexts and
places: each is a dry run of a child of its own (trying.py). The header of its files says the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from models_registry.gguf.header import Header, read_header
from models_registry.launch import LaunchSpec
from scheduler.core.sizes import FIXED, ON_HOST, DeviceId, FixedShape, Kind, Placement, Shape
from scheduler.runtime.engines.base import Engine

from .contexts import contexts_of
from .dry_run import DryRun, rows_of
from .figures import DeviceFigures
from .placement import equal_parts, gpu_layers, is_open, placed
from .shaping import Model, fixed_shape, open_shape
from .trying import NotMeasured, Tried, tried

MEASURE_SECONDS = 90.0
"""For all dry runs of one preset: a dozen at most, each most often below a second."""
ONE_RUN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Measured:
    """`unreported` bytes of the shape are none that the engine says (overheads.py). `devices` are
    the figures at the smallest context, as people are shown them."""

    shape: Shape
    unreported: int
    devices: tuple[DeviceFigures, ...]
    way: str
    seconds: float


Try = Callable[[Placement, int], DryRun]


def measure(
    spec: LaunchSpec, engine: Engine, run_folder: Path, *, seconds: float = MEASURE_SECONDS
) -> Measured:
    """Raises NotMeasured, and UnreadableHeader. No child is left, whatever happens."""
    begun = time.monotonic()
    model, contexts = model_of(spec), contexts_of_spec(spec)
    runs = _DryRuns(spec, engine, run_folder, time.monotonic() + seconds)
    shape: Shape
    if is_open(spec.memory_options):
        shape = _open(model, contexts, runs)
    else:
        shape = _fixed(model, contexts, runs)
    devices = tuple(rows_of(runs.first))
    return Measured(shape, model.unreported, devices, runs.way, time.monotonic() - begun)


def contexts_of_spec(spec: LaunchSpec) -> tuple[int, ...]:
    """Raises UnreadableHeader."""
    trained = read_header(Path(spec.model_path)).context_train
    return contexts_of(spec.memory_options, per_slot=spec.context_per_slot, trained=trained)


def model_of(spec: LaunchSpec) -> Model:
    """Raises UnreadableHeader."""
    options = spec.memory_options
    draft = options.get("model-draft")
    return Model(
        read_header(Path(spec.model_path), placed=tuple(placed(options))),
        spec.model_path,
        options,
        read_header(Path(draft)) if draft else None,
    )


class _DryRuns:
    """Each placement at each context once."""

    def __init__(self, spec: LaunchSpec, engine: Engine, run_folder: Path, until: float) -> None:
        self._spec = spec
        self._engine = engine
        self._run_folder = run_folder
        self._until = until
        self._tried: dict[tuple[Placement, int], Tried] = {}

    def __call__(self, placement: Placement, context: int) -> DryRun:
        if (placement, context) not in self._tried:
            left = self._until - time.monotonic()
            if left <= 0:
                raise NotMeasured(f"measuring took too long, after {len(self._tried)} dry runs")
            self._tried[placement, context] = tried(
                self._spec, self._engine, self._run_folder, placement, context,
                seconds=min(left, ONE_RUN_SECONDS),
            )  # fmt: skip
        return self._tried[placement, context].run

    @property
    def first(self) -> DryRun:
        return next(iter(self._tried.values())).run

    @property
    def way(self) -> str:
        return next(iter(self._tried.values())).way


def _fixed(model: Model, contexts: Sequence[int], runs: Try) -> FixedShape:
    found = {context: runs(FIXED, context) for context in contexts}
    elsewhere = found[contexts[0]].devices
    layers = gpu_layers(model.options) if elsewhere else None
    return fixed_shape(model, found, model.header.mapped_bytes(layers))


def _open(model: Model, contexts: Sequence[int], runs: Try) -> Shape:
    devices = runs(FIXED, contexts[0]).devices
    found: dict[tuple[Placement, int], DryRun] = {}
    for context in sorted({contexts[0], contexts[-1]}):
        if not devices:
            found[ON_HOST, context] = runs(FIXED, context)
        for placement, like in _placements(model.header, devices).items():
            found[placement, context] = _moved(runs(like, context), placement, like)
    return open_shape(model, contexts, [device for device, _ in devices], found)


def _placements(
    header: Header, devices: Sequence[tuple[DeviceId, str]]
) -> Mapping[Placement, Placement]:
    """What is measured, each with the placement by which it is: devices of one description are
    alike. Nothing without devices."""
    layers = len(header.layers)
    found: dict[Placement, Placement] = {}
    alike: dict[str, Placement] = {}
    for device, description in devices:
        whole = Placement(Kind.WHOLE, ((device, layers),))
        found[whole] = alike.setdefault(description, whole)
    if len(devices) > 1:
        found |= _same(_in_parts(Kind.SPREAD, devices, layers))
    if devices:
        if layers > 1:
            found |= _same(_in_parts(Kind.PARTIAL, devices, layers // 2))
        found |= _same(ON_HOST)
    return found


def _same(placement: Placement) -> Mapping[Placement, Placement]:
    return {placement: placement}


def _in_parts(kind: Kind, devices: Sequence[tuple[DeviceId, str]], layers: int) -> Placement:
    counts = equal_parts(layers, len(devices))
    return Placement(
        kind, tuple((device, count) for (device, _), count in zip(devices, counts, strict=False))
    )


def _moved(run: DryRun, placement: Placement, like: Placement) -> DryRun:
    """What was measured on one device, as it is on another of its kind."""
    if placement == like:
        return run
    return run.renamed({like.layers[0][0]: placement.layers[0][0]})
