"""The table that llama-server prints before it reads weights, row by row. Pure.

    common_memory_breakdown_print: | memory breakdown [MiB]     | total    free    self   model ...
    common_memory_breakdown_print: |   - RPC0 (127.0.0.1:50152) | 24105 = 24105 + (  87 =    47 ...
    common_memory_breakdown_print: |   - Host                   |                   151 =    73 ...

Every column is whole MiB, rounded down. `self` is rounded once, the columns that it adds up each
for itself; so the sum is taken from `self`, and what the others lost stands with `compute`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto

from .figures import HOST, MOST_BYTES, DeviceFigures, merged

MIB = 1 << 20
MOST_ROWS = 64
_ROUNDING = 2
"""MiB that three columns lose at most against their sum."""

# A stamp and a level may stand before the name, or may not: presets can switch them off.
_START = r"^(?:\S{1,40} )?(?:[DIWE] )?"
_ANY_ROW = re.compile(_START + r"common_memory_breakdown_print: \|(?P<cells>.{1,400})$")
_HEADER = re.compile(r"\s*memory breakdown \[MiB\]\s*\|")
_OWN = (
    r"(?P<self>\d{1,12}) = +(?P<model>\d{1,12}) \+ +(?P<context>\d{1,12}) \+ +(?P<compute>\d{1,12})"
)
_DEVICE = re.compile(
    r"\s*- (?P<name>[^|]+?)\s*\|\s*\d{1,12} = +-?\d{1,12} \+ \( *" + _OWN + r"\) \+ +-?\d{1,12} +\|"
)
_OTHER = re.compile(r"\s*- (?P<name>[^|]+?)\s*\|\s*" + _OWN + r"\s*\|")
_FIT_OVER = re.compile(
    _START + r"common_(?:params_fit_impl|fit_params): "
    r"(?:projected to use|encountered an error|failed to fit|successfully fit|fitting params)"
)
# Without weights it goes through the same steps, and says that it loads none.
_READS_WEIGHTS = re.compile(_START + r"load_tensors: loading model tensors(?!.*load_mode = none)")


class Seen(Enum):
    """What a line means for whoever waits for the table."""

    NOTHING = auto()
    WHOLE = auto()  # the table has come to its end
    NO_MORE = auto()  # there will be none: the stage is over, or weights are about to be read


@dataclass
class FitTable:
    """Takes the lines of a child one by one. Only the first table of the options as they were given
    counts: a later one is that of a smaller context or of fewer layers."""

    rows: list[DeviceFigures] = field(default_factory=list)
    devices: dict[str, str] = field(default_factory=dict)
    """Those beside the host, in the engine's order, with their descriptions."""
    copies: int = 0
    """Bytes of weights that the host keeps in another layout beside the file."""
    problem: str = ""
    """A row that is none: the table is not to be believed."""
    _begun: bool = False

    def take(self, line: str) -> Seen:
        found = _ANY_ROW.match(line)
        if found is None:
            return self._other(line)
        cells = found["cells"]
        if _HEADER.match(cells):
            if self._begun:
                return Seen.WHOLE
            self._begun = True
        elif self._begun:
            self._row(cells)
            if self.problem or len(self.rows) > MOST_ROWS:
                self.problem = self.problem or f"the engine's table has over {MOST_ROWS} rows"
                return Seen.NO_MORE
        return Seen.NOTHING

    def figures(self) -> tuple[DeviceFigures, ...]:
        """By device. Empty when there was no table, or none that can be believed."""
        return () if self.problem else merged(self.rows)

    def _other(self, line: str) -> Seen:
        if self.rows:
            return Seen.WHOLE
        over = _FIT_OVER.match(line) or _READS_WEIGHTS.match(line)
        return Seen.NO_MORE if over else Seen.NOTHING

    def _row(self, cells: str) -> None:
        device = _DEVICE.fullmatch(cells.rstrip())
        found = device or _OTHER.fullmatch(cells.rstrip())
        if found is None:
            self.problem = f"a row of the engine's table is not understood: {cells.strip()[:120]}"
            return
        model, context, compute, own = (
            int(found[name]) for name in ("model", "context", "compute", "self")
        )
        lost = own - model - context - compute
        if not 0 <= lost <= _ROUNDING or own * MIB > MOST_BYTES:
            self.problem = f"a row of the engine's table does not add up: {cells.strip()[:120]}"
            return
        name, _, description = found["name"].partition(" ")
        on_host = device is None and (name == HOST or name.startswith("CPU"))
        if on_host and name != HOST:
            self.copies += model * MIB
        if device is not None:
            self.devices[name] = description.strip().removeprefix("(").removesuffix(")")
        self.rows.append(
            DeviceFigures(
                HOST if on_host else name,
                model * MIB,
                context * MIB,
                (compute + lost) * MIB,
                weights=model * MIB,
            )
        )
