"""What llama-server says of a preset before it reads weights, line by line. Pure.

Its fit stage builds each model without weights, the preset's own and then a draft model's, and
prints a table for each (fit_table.py), in whole MiB. At verbosity 5 the lines of the buffers come
before it, to a hundredth of a MiB, and what a projector takes. What an engine prints the table
alone for is known to the MiB.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scheduler.core.sizes import HOST, DeviceId
from scheduler.runtime.allocated import BUFFER, MARK, DeviceNames, mib

from .figures import DeviceFigures
from .fit_table import FitTable, Seen

_NEXT_MODEL = "getting device memory data for the extra model"
_CACHE = re.compile(r"\bllama_(?:kv_cache|memory_recurrent)\w*: size = +(\d{1,12}\.\d+) MiB")
_PROJECTOR = re.compile(
    r"\[mtmd\] adding (\d{1,12}\.\d+) MiB to fit_params_target for device (\S+)"
)
_OVER = re.compile(r"common_fit_params: (?:successfully fit|failed to fit|encountered an error)")


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """One model's share. `weights` and `context` are the table's, to the MiB; `cache` is the whole
    context's exactly, None when the engine does not say. `compute` has the output buffer in it.
    `copies` are weights that the host keeps in another layout beside the file."""

    weights: Mapping[DeviceId, int]
    context: Mapping[DeviceId, int]
    compute: Mapping[DeviceId, int]
    cache: int | None = None
    copies: int = 0

    def renamed(self, names: Mapping[DeviceId, DeviceId]) -> ModelFigures:
        return replace(
            self,
            weights=_on(names, self.weights),
            context=_on(names, self.context),
            compute=_on(names, self.compute),
        )


def _on(names: Mapping[DeviceId, DeviceId], sizes: Mapping[DeviceId, int]) -> dict[DeviceId, int]:
    return {names.get(device, device): size for device, size in sizes.items()}


@dataclass(frozen=True, slots=True)
class DryRun:
    """`devices` are those that the engine would use, in its order, with their descriptions."""

    devices: tuple[tuple[DeviceId, str], ...]
    main: ModelFigures
    draft: ModelFigures | None = None
    projector: Mapping[DeviceId, int] = field(default_factory=dict)

    def renamed(self, names: Mapping[DeviceId, DeviceId]) -> DryRun:
        """The same on other devices."""
        draft = None if self.draft is None else self.draft.renamed(names)
        return replace(
            self, main=self.main.renamed(names), draft=draft, projector=_on(names, self.projector)
        )


class DryRunLog:
    """Takes a child's lines until it has said enough."""

    def __init__(self, *, has_draft: bool = False) -> None:
        self.problem = ""
        self._has_draft = has_draft
        self._names = DeviceNames()
        self._projector: dict[DeviceId, int] = defaultdict(int)
        self._models: list[_ModelLog] = [_ModelLog()]

    def take(self, line: str) -> bool:
        """True when nothing more is to come."""
        if MARK in line:
            self._figure(line)
        if self._has_draft and _NEXT_MODEL in line:
            self._models.append(_ModelLog())
            return False
        seen = self._models[-1].table.take(line)
        self.problem = self.problem or self._models[-1].table.problem
        if seen is Seen.NOTHING:
            return False
        # A draft model that the engine cannot measure has no table: the stage then ends.
        wait = self._has_draft and len(self._models) == 1 and seen is Seen.WHOLE
        return not wait or _OVER.search(line) is not None

    def found(self) -> DryRun | None:
        """None when there was no table that can be believed."""
        main = self._models[0]
        if self.problem or not main.table.rows:
            return None
        draft = self._models[1] if len(self._models) > 1 else None
        return DryRun(
            tuple((DeviceId(name), words) for name, words in main.table.devices.items()),
            main.figures(self._names),
            draft.figures(self._names) if draft is not None and draft.table.rows else None,
            dict(self._projector),
        )

    def _figure(self, line: str) -> None:
        self._names.hear(line)
        model = self._models[-1]
        if (found := BUFFER.search(line)) is not None:
            model.buffers[found[3], found[1], found[2]] = mib(found[4])
        elif (found := _CACHE.search(line)) is not None:
            model.cache = (model.cache or 0) + mib(found[1])
        elif (found := _PROJECTOR.search(line)) is not None:
            self._projector[self._names.of(found[2], None)] += mib(found[1])


@dataclass
class _ModelLog:
    table: FitTable = field(default_factory=FitTable)
    cache: int | None = None
    buffers: dict[tuple[str, str, str | None], int] = field(default_factory=dict)
    """By kind, name and endpoint; of one that is reserved again, the last."""

    def figures(self, names: DeviceNames) -> ModelFigures:
        rows = {DeviceId(row.device): row for row in self.table.figures()}
        compute = {device: row.compute for device, row in rows.items()}
        exact: dict[DeviceId, int] = defaultdict(int)
        output = 0
        for (kind, buffer, endpoint), size in self.buffers.items():
            if kind == "compute":
                exact[names.of(buffer, endpoint)] += size
            elif kind == "output":
                output += size
        for device in compute.keys() & exact.keys():
            compute[device] = exact[device]
        compute[HOST] = compute.get(HOST, 0) + output
        return ModelFigures(
            {device: row.model for device, row in rows.items()},
            {device: row.context for device, row in rows.items()},
            compute,
            self.cache,
            self.table.copies,
        )


def rows_of(run: DryRun) -> list[DeviceFigures]:
    """All of it by device, as it is shown."""
    found: dict[DeviceId, DeviceFigures] = {}
    for model in filter(None, (run.main, run.draft)):
        for device, weights in model.weights.items():
            before = found.get(device, DeviceFigures(device))
            found[device] = DeviceFigures(
                device,
                before.model + weights,
                before.context + model.context.get(device, 0),
                before.compute + model.compute.get(device, 0),
                before.weights + weights,
            )
    for device, size in run.projector.items():
        before = found.get(device, DeviceFigures(device))
        found[device] = DeviceFigures(
            device, before.model + size, before.context, before.compute, before.weights
        )
    return list(found.values())
