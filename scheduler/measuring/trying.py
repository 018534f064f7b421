"""One dry run of a preset: at one context and in one place. Blocking.

In this order, until one gives figures:
1. what the engine reports itself, where it has a `measure` role (reported.py);
2. llama-server's own fit stage (dry_run.py), from the same child: it is started with the preset's
   own command line and killed when its table is whole, before it reads weights;
3. the bindings, in a process of their own (bindings_child.py): for the host alone.
"""

from __future__ import annotations

import json
import logging
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec

from models_registry.launch import LaunchSpec
from models_registry.options.memory_options import IRRELEVANT
from scheduler.core.sizes import FIXED, HOST, ON_HOST, DeviceId, Grant, Placement
from scheduler.runtime.engines.base import CannotStart, Command, Engine
from scheduler.runtime.exits import describe, exit_of

from .bindings_child import KNOWN as KNOWN_TO_BINDINGS
from .bounded_child import Outcome, Why, heard_out
from .dry_run import DryRun, DryRunLog, ModelFigures, rows_of
from .figures import DeviceFigures, Nonsense, checked
from .reported import is_ready, reported_figures

logger = logging.getLogger(__name__)

T = TypeVar("T")

BINDINGS_SECONDS = 10.0
"""They take half a second to read a header."""
SMALL_OUTPUT = 64 << 10

FOLDER = Path(__file__).parent
VERBOSE = ("--log-verbosity", "5", "--fit", "on")
"""Behind the preset's own options, so that these hold: the figures come with them alone."""


class NotMeasured(Exception):
    """No way gave figures; the message is for people."""


@dataclass(frozen=True, slots=True)
class Tried:
    run: DryRun
    way: str


@dataclass
class _Listener:
    """Hears a measuring llama-server."""

    log: DryRunLog
    reported: tuple[DeviceFigures, ...] = ()

    def enough(self, line: str) -> bool:
        self.reported = reported_figures(line)
        return bool(self.reported) or is_ready(line) or self.log.take(line)


def tried(
    spec: LaunchSpec,
    engine: Engine,
    run_folder: Path,
    placement: Placement,
    context: int,
    *,
    seconds: float,
) -> Tried:
    """Raises NotMeasured. No child is left, whatever happens."""
    listener = _Listener(DryRunLog(has_draft="model-draft" in spec.memory_options))
    grant = Grant(placement, context)
    outcome = _fit_stage(spec, engine, run_folder, grant, listener, seconds)
    if listener.reported:
        return Tried(_of_rows(listener.reported), "reported")
    found, way = listener.log.found(), "fit stage"
    if found is None:
        problem = listener.log.problem or _problem(outcome, seconds)
        found, way = _by_bindings(spec, grant, problem), "bindings"
    try:
        checked(rows_of(found))
    except Nonsense as nonsense:
        raise NotMeasured(f"the engine's figures cannot be: {nonsense}") from nonsense
    return Tried(found, way)


def _fit_stage(
    spec: LaunchSpec,
    engine: Engine,
    run_folder: Path,
    grant: Grant,
    listener: _Listener,
    seconds: float,
) -> Outcome:
    address = run_folder / f"m-{secrets.token_hex(4)}.sock"
    try:
        command = engine.command(spec, str(address), grant)
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
            problem = f"the engine said nothing of its memory within {seconds:.2g} s"
        case Why.TOO_MUCH:
            problem = "the engine printed without end, and no figures"
        case Why.EXITED if outcome.returncode is not None:
            problem = f"the engine ended with {describe(exit_of(outcome.returncode))}"
        case _:
            problem = "the engine did not say what it would take"
    return f"{problem}\n{outcome.words}".strip()


def _of_rows(rows: Sequence[DeviceFigures]) -> DryRun:
    """Of figures that are not told apart any further."""
    devices = {DeviceId(row.device): row for row in rows}
    return DryRun(
        tuple((device, "") for device in devices if device != HOST),
        ModelFigures(
            {device: row.weights for device, row in devices.items()},
            {device: row.context for device, row in devices.items()},
            {HOST: 0, **{device: row.compute for device, row in devices.items()}},
        ),
    )


# The bindings ---------------------------------------------------------------------------------


class _Sizes(msgspec.Struct, frozen=True):
    model: int
    context: int
    compute: int


def _by_bindings(spec: LaunchSpec, grant: Grant, problem: str) -> DryRun:
    """`problem` is why the engine itself gave none: what a person is told when these fail too."""
    options = {**spec.memory_options, "ctx-size": str(grant.context)}
    unknown = sorted(options.keys() - KNOWN_TO_BINDINGS - IRRELEVANT)
    if unknown or grant.placement not in (FIXED, ON_HOST):
        logger.info("%s: the bindings know no %s", spec.preset, ", ".join(unknown) or "devices")
        raise NotMeasured(problem)
    try:
        sizes = _told(spec, {"model": spec.model_path, "options": options}, _Sizes)
    except NotMeasured as failure:
        logger.info("%s: nor do the bindings tell: %s", spec.preset, failure)
        raise NotMeasured(problem) from failure
    host = DeviceFigures(HOST, sizes.model, sizes.context, sizes.compute, weights=sizes.model)
    return _of_rows([host])


def _told(spec: LaunchSpec, asked: object, form: type[T]) -> T:
    """The last line that the program prints, as `form`. Raises NotMeasured."""
    lines: list[str] = []
    argv = (sys.executable, "-I", str(FOLDER / "bindings_child.py"), json.dumps(asked))
    outcome = heard_out(
        Command(argv, spec.env),
        _kept_in(lines),
        seconds=BINDINGS_SECONDS,
        most_output=SMALL_OUTPUT,
    )
    if outcome.why is not Why.EXITED or outcome.returncode != 0 or not lines:
        raise NotMeasured(f"the bindings: {outcome.words or outcome.why.name.lower()}")
    try:
        return msgspec.json.decode(lines[-1], type=form)
    except msgspec.DecodeError as failure:
        raise NotMeasured(f"the bindings: {failure}") from failure


def _kept_in(lines: list[str]) -> Callable[[str], bool]:
    def keep(line: str) -> bool:
        lines.append(line)
        return False

    return keep
