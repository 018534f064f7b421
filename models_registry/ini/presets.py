"""What the sections of an INI file say, by the engine's catalogue: options, policy, names, files.
Pure: whether a section's model is there is another question.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from models_registry.errors import OptionError
from models_registry.ini import text as ini
from models_registry.ini.text import GLOBAL, Fault, IniError, IniKey, IniSection
from models_registry.names import alias_problem
from models_registry.naming import name_problem, quantisation
from models_registry.options.catalogue import Catalogue
from models_registry.options.command_line import checked_option
from models_registry.options.old_options import OldOptions
from models_registry.options.option_values import switch
from models_registry.options.policy_keys import plain_key, policy_key, policy_text

_SOURCES = {
    "model": "model",
    "mmproj": "mmproj",
    "model-draft": "draft",
    "hf-repo": "hf_repo",
    "hf-file": "hf_file",
}
"""The engine's keys that name the section's files, and the attribute each becomes."""

_OTHER_NAMES = {
    "__PRESET_LOAD_ON_STARTUP": "load-on-startup",
    "__PRESET_STOP_TIMEOUT": "stop-timeout",
    "__PRESET_DEDUP_CACHE_MODELS": "dedup-cache-models",
    "LLAMA_ARG_TAGS": "tags",
    "LLAMA_ARG_ALIAS": "alias",
}
"""llama.cpp's other names for keys that are no options of the child here."""

_SLEEP = "sleep-idle"

_REPO = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*")

NO_MODEL = (
    "names no model: write `model = /path/to/model.gguf` or `hf-repo = user/repo:QUANT` in it, or "
    "give it the name of a model that was found"
)


@dataclass(slots=True)
class PresetSection:
    """One section. Options and policy by canonical key, each value in its one spelling; the files
    as they were written, empty where it names none."""

    line: int
    name: str
    options: dict[str, str] = field(default_factory=dict)
    policy: dict[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    model: str = ""
    mmproj: str = ""
    draft: str = ""
    hf_repo: str = ""
    hf_file: str = ""

    @property
    def said(self) -> dict[str, str]:
        """As it is kept in `file_options`."""
        return self.options | self.policy

    @property
    def names_a_model(self) -> bool:
        return bool(self.model or self.hf_repo)


@dataclass(slots=True)
class PresetsFile:
    """What all of them say. `warnings` are sentences on what was taken otherwise, or not taken."""

    of_all: PresetSection
    presets: dict[str, PresetSection] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def read_presets(
    text: str, catalogue: Catalogue, *, folder: str = "", ignore_unknown: bool = False
) -> PresetsFile:
    """Raises IniError with every fault. Paths that are not absolute are below `folder`, if there is
    one. With `ignore_unknown` keys that cannot be taken are warnings."""
    return _Reader(catalogue, folder, ignore_unknown).read(ini.parse(text))


def canonical_name(name: str) -> str:
    """`user/repo:tag` as llama.cpp names such a model: of the tag the last word, in capitals."""
    repo, colon, tag = name.rpartition(":")
    if not colon or not _REPO.fullmatch(repo):
        return name
    return f"{repo}:{quantisation('-' + tag) or tag.upper()}"


def repository(text: str) -> tuple[str, str]:
    """(`user/repo`, its tag or nothing) of an hf-repo."""
    repo, _, tag = text.partition(":")
    return repo, tag.upper()


class _Reader:
    def __init__(self, catalogue: Catalogue, folder: str, ignore_unknown: bool) -> None:
        self._catalogue = catalogue
        self._folder = folder
        self._ignore_unknown = ignore_unknown
        self._faults: list[Fault] = []
        self._warnings: list[str] = []

    def read(self, parsed: ini.Ini) -> PresetsFile:
        self._warnings += map(str, parsed.warnings)
        found = PresetsFile(PresetSection(0, GLOBAL), warnings=self._warnings)
        for name, section in parsed.sections.items():
            if name != GLOBAL and (problem := name_problem(name)):
                shown = name if len(name) <= 60 else name[:60] + "…"
                self._faults.append(Fault(section.line, 2, f"[{shown}]: {problem}"))
                continue
            read = self._section(section)
            if name == GLOBAL:
                found.of_all = read
            else:
                found.presets[name] = read
        if self._faults:
            raise IniError(sorted(self._faults, key=lambda fault: (fault.line, fault.column)))
        return found

    def _section(self, section: IniSection) -> PresetSection:
        read = PresetSection(section.line, section.name)
        old = OldOptions(self._catalogue)
        lines: dict[str, int] = {}
        for key in section.keys:
            try:
                self._key(key, read, old, lines)
            except OptionError as error:
                self._refuse(key, error)
        if mode := old.load_mode():
            self._warnings.append(f"[{section.name}]: {mode[1]}")
            read.options.setdefault("load-mode", mode[0])
        if read.name == GLOBAL:
            self._check_global(read)
        elif read.hf_repo and not _REPO.fullmatch(repository(read.hf_repo)[0]):
            told = f"hf-repo takes user/repo or user/repo:QUANT, not {read.hf_repo[:60]!r}"
            self._faults.append(Fault(section.line, 1, told))
        return read

    def _check_global(self, read: PresetSection) -> None:
        if read.names_a_model or read.mmproj or read.draft or read.hf_file or read.aliases:
            told = "[*] counts for every model: it can name neither a file nor an alias"
            self._faults.append(Fault(read.line, 1, told))

    def _refuse(self, key: IniKey, error: OptionError) -> None:
        fault = Fault(key.line, 1, str(error))
        if self._ignore_unknown:
            self._warnings.append(f"{fault}; ignored")
        else:
            self._faults.append(fault)

    def _key(
        self, key: IniKey, read: PresetSection, old: OldOptions, lines: dict[str, int]
    ) -> None:
        """Raises OptionError when it cannot be taken."""
        name = _OTHER_NAMES.get(key.key, key.key)
        if not key.value:
            self._warnings.append(f"line {key.line}: {key.key} is empty, and says nothing")
        elif plain_key(name) == "alias":
            read.aliases = self._aliases(key)
        elif known := policy_key(name):
            read.policy[known.key] = policy_text(name, key.value)
            self._said(known.key, key, lines)
        elif old.is_old_switch(name):
            old.take_switch(name, key.value)
        else:
            self._option(key, name, read, old, lines)

    def _option(
        self, key: IniKey, name: str, read: PresetSection, old: OldOptions, lines: dict[str, int]
    ) -> None:
        if plain_key(name) == _SLEEP:
            name = "sleep-idle-seconds"
        if renamed := old.new_name(name):
            name = renamed[0]
            self._warnings.append(f"line {key.line}: {renamed[1]}")
        match = self._catalogue.find(name)
        if match is not None and match.option.key in _SOURCES and not match.negated:
            setattr(read, _SOURCES[match.option.key], self._file(match.option.key, key))
            self._said(match.option.key, key, lines)
            return
        value = key.value
        if match is not None and match.negated and name.startswith("LLAMA_ARG_NO_"):
            on = switch(value)
            if on is not None:
                value = "false" if on else "true"  # checked_option turns it round once more
            told = f"{key.key} sets {match.option.key} to its value as it is, as in llama.cpp"
            self._warnings.append(f"line {key.line}: {told}")
        canonical, text = checked_option(name, value, self._catalogue)
        read.options[canonical] = text
        self._said(canonical, key, lines)

    def _said(self, canonical: str, key: IniKey, lines: dict[str, int]) -> None:
        """As in llama.cpp the last one counts."""
        if canonical in lines:
            self._warnings.append(
                f"line {key.line}: {key.key} replaces the {canonical} of line {lines[canonical]}"
            )
        lines[canonical] = key.line

    def _file(self, option: str, key: IniKey) -> str:
        if option.startswith("hf-"):
            return key.value
        path = Path(self._folder) / key.value
        if not path.is_absolute():
            raise OptionError(key.key, f"write the absolute path, not {key.value[:60]!r}")
        return os.path.normpath(path)

    def _aliases(self, key: IniKey) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.strip() for name in key.value.split(",") if name.strip()))
        for name in names:
            if problem := alias_problem(name):
                raise OptionError(key.key, f"{name[:60]!r}: {problem}")
            if name.endswith("*"):
                self._warnings.append(
                    f"line {key.line}: {name} stands for all names that begin so; "
                    "llama.cpp takes it for a name like any other"
                )
        return names


def where(section: PresetSection) -> str:
    """For people."""
    return f"line {section.line}: [{section.name}]"


def targets(
    sections: Mapping[str, PresetSection], known: Container[str]
) -> tuple[dict[str, PresetSection], list[str]]:
    """(the sections by the name of the preset that each is about, conflicts).

    A section that names no model, and whose name is not known, is about the model that llama.cpp
    would mean by it. One that names a model keeps its name, whatever its tag: names that people
    make up do not collapse into one.
    """
    found: dict[str, PresetSection] = {}
    conflicts: list[str] = []
    for name, section in sections.items():
        target = name
        if name not in known and not section.names_a_model and canonical_name(name) in known:
            target = canonical_name(name)
        if (target in sections and target != name) or target in found:
            conflicts.append(f"{where(section)}: another section is about {target} already")
        else:
            found[target] = section
    return found, conflicts
