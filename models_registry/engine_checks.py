"""Is what a preset says of its engine coherent, and does that engine take it?"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from models_registry import python_server
from models_registry.engines import (
    DECLARED,
    EngineKind,
    command_words,
    declared_problem,
    names,
    path_problem,
    url_problem,
)
from models_registry.errors import OptionError
from models_registry.options.catalogue import Catalogue
from models_registry.options.policy_keys import LINE_KEYS, plain_key, policy_key
from models_registry.options.preset_options import (
    COLUMNS,
    Line,
    column_options,
    extra_lines,
    read_lines,
)
from models_registry.python_server import CHAT_FORMAT

if TYPE_CHECKING:
    from models_registry.models import Preset

Errors = dict[str, list[str]]

_OF_ITS_OWN: dict[str, tuple[str, ...]] = {
    EngineKind.COMMAND: ("command_line", "health_path"),
    EngineKind.UPSTREAM: ("upstream_url", "upstream_model", "upstream_key"),
}
_LABELS = {
    "command_line": "a command line",
    "health_path": "a health path",
    "upstream_url": "a URL",
    "upstream_model": "a model's name",
    "upstream_key": "a key",
}
_NEED_A_FILE = frozenset({EngineKind.LLAMA_SERVER, EngineKind.LLAMA_CPP_PYTHON})


def engine_errors(preset: Preset) -> Errors:
    """By field."""
    errors: Errors = {}
    for field, problem in _problems(preset):
        errors.setdefault(field, []).append(problem)
    return errors


def _problems(preset: Preset) -> Iterator[tuple[str, str]]:
    kind = preset.engine
    yield from _of_other_engines(preset)
    if kind == EngineKind.LLAMA_CPP_PYTHON and (problem := python_server.missing()):
        yield "engine", f"{problem[0].upper()}{problem[1:]}."
    if kind in _NEED_A_FILE and preset.model_file is None:
        yield "model_file", _("This engine needs a model file: choose one.")
    yield from _memory_problems(preset)
    if kind == EngineKind.COMMAND:
        yield from _command_problems(preset)
    if kind == EngineKind.UPSTREAM:
        yield from _upstream_problems(preset)


def _of_other_engines(preset: Preset) -> Iterator[tuple[str, str]]:
    for owner, fields in _OF_ITS_OWN.items():
        for field in fields if owner != preset.engine else ():
            if getattr(preset, field):
                # The reference of a key is no field that people edit.
                at = "engine" if field == "upstream_key" else field
                undo = _("forget it first") if field == "upstream_key" else _("clear it")
                yield (
                    at,
                    _("Only the engine %(owner)s has %(value)s: %(undo)s.")
                    % {"owner": owner, "value": _LABELS[field], "undo": undo},
                )


def _memory_problems(preset: Preset) -> Iterator[tuple[str, str]]:
    declares = preset.engine in DECLARED
    if problem := declared_problem(preset.declared_memory):
        yield "declared_memory", problem
    elif declares and not preset.declared_memory:
        yield (
            "declared_memory",
            _('What this engine takes cannot be measured: say it, as {"Host": 2048}, in MiB.'),
        )
    elif preset.declared_memory and not declares:
        yield (
            "declared_memory",
            _("The engine %(engine)s declares nothing: clear it.") % {"engine": preset.engine},
        )


def _command_problems(preset: Preset) -> Iterator[tuple[str, str]]:
    try:
        program = command_words(preset.command_line)[0]
    except OptionError as error:
        yield "command_line", _("It cannot be taken: %(message)s.") % {"message": error.message}
        return
    if names(preset.command_line, "model") and preset.model_file is None:
        yield "model_file", "The command line names ${model}: choose a model file."
    before = type(preset).objects.filter(pk=preset.pk).values_list("command_line", flat=True)
    if before.first() != preset.command_line and shutil.which(program) is None:
        yield (
            "command_line",
            _("There is no program %(program)s: install it, or write its path.")
            % {"program": program},
        )
    if preset.health_path and (problem := path_problem(preset.health_path)):
        yield "health_path", problem


def _upstream_problems(preset: Preset) -> Iterator[tuple[str, str]]:
    if preset.model_file_id is not None:
        yield "model_file", _("A remote server runs no file of this machine: clear it.")
    if problem := url_problem(preset.upstream_url):
        yield "upstream_url", problem


# Options ----------------------------------------------------------------------------------

TAKES: dict[str, frozenset[str]] = {
    EngineKind.COMMAND: frozenset({"parallel"}),
    EngineKind.UPSTREAM: frozenset({"parallel"}),
    EngineKind.LLAMA_CPP_PYTHON: frozenset(
        {"ctx_size", "n_gpu_layers", "threads", "batch_size", "ubatch_size", "flash_attn",
         "embeddings"}
    ),
}  # fmt: skip
"""Of the columns that are options of llama-server, those that another engine takes too."""

_ELSEWHERE = {
    EngineKind.COMMAND: "write it into its command line",
    EngineKind.UPSTREAM: "the remote server has its own",
    EngineKind.LLAMA_CPP_PYTHON: "it cannot be told to this engine",
}


def foreign_option_errors(preset: Preset) -> Errors:
    """Of a preset whose engine is not llama-server: what it sets that its engine does not take."""
    if preset.engine not in TAKES:
        return {}  # the field itself says that there is no such engine
    why = _ELSEWHERE[EngineKind(preset.engine)]
    told = column_options(preset)
    errors = {
        field: [_("Clear it: %(why)s.") % {"why": why}]
        for field, key in COLUMNS.items()
        if key in told and field not in TAKES[preset.engine]
    }
    faults = list(_line_faults(preset, why))
    if preset.engine == EngineKind.LLAMA_CPP_PYTHON and not errors and not faults:
        try:
            python_server.checked(told | python_lines(preset.extra_options))
        except OptionError as error:
            at = "flash_attn" if error.option == "flash-attn" else "extra_options"
            errors[at] = [f"{error}."]
    if faults:
        errors["extra_options"] = faults
    return errors


def python_lines(text: str) -> dict[str, str]:
    """The options of llama-cpp-python's server among the lines."""
    lines = [line for line in extra_lines(text) if isinstance(line, Line)]
    values = [line.value for line in lines if plain_key(line.key) == CHAT_FORMAT]
    return {CHAT_FORMAT: values[-1]} if values else {}


def _line_faults(preset: Preset, why: str) -> Iterator[str]:
    own = CHAT_FORMAT if preset.engine == EngineKind.LLAMA_CPP_PYTHON else ""
    policy: list[str] = []
    for line in extra_lines(preset.extra_options):
        if isinstance(line, OptionError):
            yield f"{line}."
        elif own and plain_key(line.key) == own:
            continue
        elif (known := policy_key(line.key)) is None or known.key not in LINE_KEYS:
            yield _("line %(number)s: %(key)s: %(why)s.") % {
                "number": line.number,
                "key": line.key,
                "why": why,
            }
        else:
            policy.append(_as_written(line))
    yield from (f"{error}." for error in read_lines("\n".join(policy), Catalogue(())).errors)


def _as_written(line: Line) -> str:
    return f"{line.key} = {line.value}"
