"""Measure what a preset takes on each device, without its weights. Blocking: for a job's thread.

In this order, until one gives figures:
1. what the engine reports itself, where it has a `measure` role (reported.py);
2. the table of llama-server's own fit stage (fit_table.py), from the same child: it is started with
   the preset's own command line and killed when the table is whole, before it reads weights;
3. the bindings, in a process of their own (bindings_child.py).
"""

from __future__ import annotations

import json
import logging
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec

from models_registry.gguf.header import UnreadableHeader, read_header
from models_registry.launch import LaunchSpec
from models_registry.memory_options import IRRELEVANT
from scheduler.runtime.engines.base import CannotStart, Command, Engine
from scheduler.runtime.exits import describe, exit_of

from .bindings_child import KNOWN as KNOWN_TO_BINDINGS
from .bindings_child import is_fitted
from .bounded_child import Outcome, Why, heard_out
from .figures import HOST, DeviceFigures, Nonsense, checked, with_mapped_host
from .fit_table import FitTable, Seen
from .placement import gpu_layers, placed
from .reported import is_ready, reported_figures

logger = logging.getLogger(__name__)

T = TypeVar("T")

MEASURE_SECONDS = 30.0
OWN_PROGRAM_SECONDS = 10.0
"""The bindings take half a second to read a header."""
SMALL_OUTPUT = 64 << 10

FOLDER = Path(__file__).parent
VERBOSE = ("--log-verbosity", "4", "--fit", "on")
"""Behind the preset's own options, so that these hold: the table comes with them alone."""

_MAPPING_MODES = frozenset({"auto", "mmap", "mmap+mlock"})


class NotMeasured(Exception):
    """No way gave figures; the message is for people."""


@dataclass(frozen=True, slots=True)
class Measured:
    devices: tuple[DeviceFigures, ...]
    way: str
    seconds: float


@dataclass
class _Listener:
    """Hears a measuring llama-server."""

    table: FitTable
    reported: tuple[DeviceFigures, ...] = ()

    def enough(self, line: str) -> bool:
        self.reported = reported_figures(line)
        return bool(self.reported) or is_ready(line) or self.table.take(line) is not Seen.NOTHING


def measure(
    spec: LaunchSpec, engine: Engine, run_folder: Path, *, seconds: float = MEASURE_SECONDS
) -> Measured:
    """Raises NotMeasured. No child is left, whatever happens."""
    begun = time.monotonic()
    listener = _Listener(FitTable(fitted=is_fitted(spec.memory_options)))
    outcome = _fit_stage(spec, engine, run_folder, listener, seconds)
    if listener.reported:
        return Measured(listener.reported, "reported", time.monotonic() - begun)
    devices = listener.table.figures()
    way = "fit stage"
    if not devices:
        problem = listener.table.problem or _problem(outcome, seconds)
        devices, way = _by_bindings(spec, problem), "bindings"
    try:
        devices = checked(_as_mapped(spec, devices, listener.table.copies))
    except Nonsense as nonsense:
        raise NotMeasured(f"the engine's figures cannot be: {nonsense}") from nonsense
    return Measured(devices, way, time.monotonic() - begun)


def _fit_stage(
    spec: LaunchSpec, engine: Engine, run_folder: Path, listener: _Listener, seconds: float
) -> Outcome:
    address = run_folder / f"m-{secrets.token_hex(4)}.sock"
    try:
        command = engine.command(spec, address)
        return heard_out(_measuring(command), listener.enough, seconds=seconds)
    except (CannotStart, OSError) as failure:
        raise NotMeasured(f"the engine could not be started: {failure}") from failure
    finally:
        address.unlink(missing_ok=True)


def _measuring(command: Command) -> Command:
    role = {"LLAMA_SERVER_CHILD_ROLE": "measure"}
    return replace(command, argv=(*command.argv, *VERBOSE), env={**command.env, **role})


def _problem(outcome: Outcome, seconds: float) -> str:
    match outcome.why:
        case Why.TOO_SLOW:
            problem = f"the engine said nothing of its memory within {seconds:g} s"
        case Why.TOO_MUCH:
            problem = "the engine printed without end, and no figures"
        case Why.EXITED if outcome.returncode is not None:
            problem = f"the engine ended with {describe(exit_of(outcome.returncode))}"
        case _:
            problem = "the engine did not say what it would take"
    return f"{problem}\n{outcome.words}".strip()


# The host's share of a mapped file ------------------------------------------------------------


def _as_mapped(
    spec: LaunchSpec, devices: Sequence[DeviceFigures], copies: int
) -> Sequence[DeviceFigures]:
    """The engine counts tensors when it fits; loaded, it maps whole stretches of the file."""
    host = next((each for each in devices if each.device == HOST), None)
    options = spec.memory_options
    if host is None or not host.weights or options.get("load-mode", "auto") not in _MAPPING_MODES:
        return devices
    others = len(devices) > 1
    patterns = tuple(placed(options)) if others else ()
    try:
        header = read_header(Path(spec.model_path), placed=patterns)
    except UnreadableHeader as failure:
        # The tensors' own bytes are right for what cannot be dropped from memory.
        logger.warning("what %s maps is not known: %s", spec.preset, failure)
        return devices
    mapped = header.mapped_bytes(gpu_layers(options) if others else None)
    return with_mapped_host(devices, mapped, copies)


# The bindings ---------------------------------------------------------------------------------


class _Sizes(msgspec.Struct, frozen=True):
    model: int
    context: int
    compute: int


def _by_bindings(spec: LaunchSpec, problem: str) -> tuple[DeviceFigures, ...]:
    """`problem` is why the engine itself gave none: what a person is told when these fail too."""
    options = dict(spec.memory_options)
    unknown = sorted(options.keys() - KNOWN_TO_BINDINGS - IRRELEVANT)
    if unknown:
        logger.info("%s: the bindings know no %s", spec.preset, ", ".join(unknown))
        raise NotMeasured(problem)
    asked = {"model": spec.model_path, "options": options}
    try:
        sizes = _told(spec, "bindings_child.py", asked, _Sizes)
    except NotMeasured as failure:
        logger.info("%s: nor do the bindings tell: %s", spec.preset, failure)
        raise NotMeasured(problem) from failure
    host = DeviceFigures(HOST, sizes.model, sizes.context, sizes.compute, weights=sizes.model)
    return (host,)


def _told(spec: LaunchSpec, program: str, asked: object, form: type[T]) -> T:
    """The last line that one of our own programs prints, as `form`. Raises NotMeasured."""
    lines: list[str] = []
    argv = (sys.executable, "-I", str(FOLDER / program), json.dumps(asked))
    outcome = heard_out(
        Command(argv, spec.env),
        _kept_in(lines),
        seconds=OWN_PROGRAM_SECONDS,
        most_output=SMALL_OUTPUT,
    )
    if outcome.why is not Why.EXITED or outcome.returncode != 0 or not lines:
        raise NotMeasured(f"{program}: {outcome.words or outcome.why.name.lower()}")
    try:
        return msgspec.json.decode(lines[-1], type=form)
    except msgspec.DecodeError as failure:
        raise NotMeasured(f"{program}: {failure}") from failure


def _kept_in(lines: list[str]) -> Callable[[str], bool]:
    def keep(line: str) -> bool:
        lines.append(line)
        return False

    return keep
