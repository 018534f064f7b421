"""An Ollama Modelfile as a preset; what cannot be taken is listed with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing, ImportRefused, OptionError
from models_registry.imports.options import fields_of
from models_registry.imports.plan import Plan, PlannedPreset
from models_registry.naming import name_problem
from models_registry.options.catalogue import Catalogue, engine_catalogue
from models_registry.options.command_line import known_option, option_value
from models_registry.options.old_options import OldOptions
from models_registry.sources.ollama_params import options_of

LONGEST = 1 << 20
"""Characters: a licence may stand in it."""

NOT_TAKEN: dict[str, str] = {
    "TEMPLATE": "it is written in Ollama's own language: the chat template in the GGUF counts",
    "ADAPTER": "presets name no LoRA files: merge it into the model",
    "LICENSE": "the licence is read from the model file",
    "MESSAGE": "a client sends the whole conversation",
    "RENDERER": "the chat template in the GGUF counts",
    "PARSER": "llama-server finds out by itself how to read the model's answers",
    "REQUIRES": "it is about Ollama alone",
}
"""Instructions that have no counterpart, and why."""

IN_REQUESTS = frozenset(
    {
        *("temperature", "top_k", "top_p", "min_p", "typical_p", "seed"),
        *("repeat_last_n", "repeat_penalty", "presence_penalty", "frequency_penalty"),
        *("mirostat", "mirostat_tau", "mirostat_eta"),
    }
)
"""Parameters that requests have by the same name, and llama-server reads. (num_predict is not among
them: in llama-server n_predict counts above a client's own max_tokens.)"""

_ENGINES = {"main_gpu": "main-gpu", "draft_num_predict": "spec-draft-n-max"}
_LOADING = {"use_mmap": "mmap", "use_mlock": "mlock"}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One of a Modelfile, where it begins; `command` in capitals, quotes around the value gone."""

    line: int
    command: str
    value: str


def plan(text: str, name: str, *, folder: Path | None = None) -> Plan:
    """What importing this Modelfile as the preset `name` would make. `folder` is what relative
    paths in it start from. Raises ImportRefused."""
    if problem := name_problem(name):
        raise ImportRefused(f"the name {name[:70]!r} cannot be taken: {problem}")
    planning = _Planning(_catalogue(), folder)
    for instruction in instructions(text):
        planning.take(instruction)
    return planning.plan(name)


def instructions(text: str) -> Iterator[Instruction]:
    """Raises ImportRefused."""
    if len(text) > LONGEST:
        raise ImportRefused(f"the file is longer than {LONGEST} characters")
    lines = re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff"))
    at = 0
    while at < len(lines):
        number, line = at + 1, lines[at].strip()
        at += 1
        if not line or line.startswith("#"):
            continue
        command, value = _first_word(line)
        if '"""' in value:
            at, value = _to_closing_quotes(lines, at, value, number)
        yield Instruction(number, command.upper(), value)


def _to_closing_quotes(lines: list[str], at: int, value: str, number: int) -> tuple[int, str]:
    """(the line after it, all of a value that begins in three quotes)."""
    before, _, opened = value.partition('"""')
    parts = [opened]
    while '"""' not in parts[-1]:
        if at == len(lines):
            raise ImportRefused(f'line {number}: the text that begins here has no closing """')
        parts.append(lines[at])
        at += 1
    parts[-1] = parts[-1].partition('"""')[0]
    return at, before + "\n".join(parts)


def parameters_of(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(fields of a preset, sentences on what is not taken) of parameters that come as values, not
    as a text. Raises ImportRefused."""
    planning = _Planning(_catalogue(), None)
    for name, value in parameters.items():
        for each in value if isinstance(value, list) else [value]:
            planning.take_value(name, each)
    return planning.fields()


def _catalogue() -> Catalogue:
    try:
        return engine_catalogue(llama_server())
    except EngineMissing as error:
        raise ImportRefused(f"its options cannot be checked now: {error}") from error


class _Planning:
    def __init__(self, catalogue: Catalogue, folder: Path | None) -> None:
        self._catalogue = catalogue
        self._folder = folder
        self._files: dict[str, str] = {}
        self._like = ""
        self._options: dict[str, str] = {}
        self._defaults: dict[str, Any] = {}
        self._old = OldOptions(catalogue)
        self._notes: list[str] = []

    def take(self, instruction: Instruction) -> None:
        match instruction.command:
            case "FROM":
                self._take_from(instruction)
            case "PARAMETER":
                self._take_parameter(instruction)
            case "SYSTEM":
                self._defaults["system"] = _unquoted(instruction.value)
            case "DRAFT" if _is_path(instruction.value):
                self._files["draft"] = self._path(instruction)
            case command if command in NOT_TAKEN:
                self._say(instruction.line, f"{command} is not taken: {NOT_TAKEN[command]}")
            case command:
                raise ImportRefused(
                    f"line {instruction.line}: {command[:40]!r} is no instruction of a Modelfile"
                )

    def plan(self, name: str) -> Plan:
        if not self._files.get("model") and not self._like:
            raise ImportRefused("a Modelfile has a line FROM, and this has none")
        fields, notes = self.fields()
        preset = PlannedPreset(
            name,
            model=self._files.get("model", ""),
            mmproj=self._files.get("mmproj", ""),
            draft=self._files.get("draft", ""),
            like=self._like,
            inherits=bool(self._like),
            fields=fields,
        )
        return Plan(presets=(preset,), notes=tuple(notes))

    def fields(self) -> tuple[dict[str, Any], list[str]]:
        """Of the preset, and what is to be said."""
        if mode := self._old.load_mode():
            self._options["load-mode"] = mode[0]
        fields, notes = fields_of(self._options)
        if self._defaults:
            fields["request_defaults"] = self._defaults
        return fields, [*self._notes, *notes]

    def take_value(self, name: str, value: object) -> None:
        """Of a parameter."""
        if isinstance(value, str) and name != "stop":
            value = _value(value)
        if not isinstance(value, str | int | float):
            self._notes.append(f"parameter {name} is not taken: it is no text, number or switch")
            return
        try:
            self._take_named(name.lower(), value)
        except OptionError as error:
            self._notes.append(f"parameter {name} is not taken: {error.message}")

    def _say(self, line: int, text: str) -> None:
        self._notes.append(f"line {line}: {text}")

    def _take_from(self, instruction: Instruction) -> None:
        value = _unquoted(instruction.value)
        if not value:
            raise ImportRefused(f"line {instruction.line}: FROM names no model")
        if self._files.get("model") or self._like:
            if _is_path(value) and "mmproj" in Path(value).name:
                self._files["mmproj"] = self._path(instruction)
            else:
                self._say(instruction.line, f"FROM {value} is not taken: there is one before it")
        elif _is_path(value):
            self._files["model"] = self._path(instruction)
        else:
            self._like = value

    def _path(self, instruction: Instruction) -> str:
        value = _unquoted(instruction.value)
        if Path(value).is_absolute():
            return value
        if self._folder is None:
            raise ImportRefused(
                f"line {instruction.line}: {value} is a relative path: write it from / on"
            )
        path = Path(value).expanduser()
        return str(path if path.is_absolute() else (self._folder / path).absolute())

    def _take_parameter(self, instruction: Instruction) -> None:
        name, text = _first_word(instruction.value)
        name, value = name.lower(), _value(text)
        try:
            self._take_named(name, value)
        except OptionError as error:
            self._say(instruction.line, f"PARAMETER {name} is not taken: {error.message}")

    def _take_named(self, name: str, value: str | float | bool) -> None:
        """Raises OptionError."""
        if name == "stop":
            self._defaults.setdefault("stop", []).append(str(value))
        elif name in _LOADING:
            self._old.take_switch(_LOADING[name], str(value).lower())
        elif name in _ENGINES:
            match = known_option(_ENGINES[name], self._catalogue)
            self._options[match.option.key] = option_value(match, str(value), name)
        elif name == "num_keep":
            if not isinstance(value, int) or value < -1:
                raise OptionError(name, "it is a number of tokens, or -1 for all")
            self._defaults["n_keep"] = value
        else:
            options, notes = options_of({name: value})
            if notes:
                raise OptionError(name, notes[0].partition("is not taken: ")[2] or notes[0])
            if name in IN_REQUESTS:
                self._defaults[name] = value
            else:
                self._options |= options


def _first_word(text: str) -> tuple[str, str]:
    """(the word, what stands behind the blanks or tabs after it)."""
    word, *rest = text.split(maxsplit=1) or [""]
    return word, rest[0] if rest else ""


def _is_path(value: str) -> bool:
    value = _unquoted(value)
    return value.startswith(("/", "./", "../", "~")) or value.lower().endswith(
        (".gguf", ".bin", ".safetensors")
    )


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _value(text: str) -> str | float | bool:
    """As Ollama reads it: what looks like a number or a switch is one."""
    text = text.strip()
    if text.startswith('"'):
        return _unquoted(text)
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    if re.fullmatch(r"[+-]?([0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18})([eE][+-]?[0-9]{1,2})?", text):
        return float(text)
    return text
