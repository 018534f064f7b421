"""The presets file of `--models-preset`: what it says becomes the file's layer of the presets.

It is read whole first, and a faulty one changes nothing. Then rows are made to say what it says:
only those that differ are saved, and what a person set is never touched.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Model, RestrictedError

from models_registry.engine_path import llama_server
from models_registry.errors import ImportRefused
from models_registry.ini.presets import PresetSection, PresetsFile, read_presets, targets, where
from models_registry.ini.section_files import NoModel, companions, model_path
from models_registry.ini.text import IniError, decoded
from models_registry.model_paths import files_state
from models_registry.models import Alias, GlobalPreset, ModelFile, Preset, Source
from models_registry.options.catalogue import engine_catalogue
from models_registry.options.inheritance import global_row
from models_registry.validation import file_problem

REASON = "the presets file"
"""What the history keeps."""

LONGEST_FILE = 4 << 20  # bytes


@dataclass(slots=True)
class PresetsReport:
    """What the file changed, by preset; `conflicts` and `warnings` are sentences."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def changes(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def lines(self) -> list[str]:
        """For people; the first line is a summary."""
        done = ", ".join(
            f"{len(names)} {word}"
            for word, names in (
                ("new", self.added),
                ("changed", self.changed),
                ("gone", self.removed),
            )
            if names
        )
        return [f"presets file: {done or 'nothing changed'}", *self.conflicts, *self.warnings]


def read(path: Path) -> PresetsFile:
    """Without the database. Raises ImportRefused, naming every fault with its line; and
    EngineMissing, without which no option can be checked."""
    catalogue = engine_catalogue(llama_server())
    try:
        data = _contents(path)
    except OSError as error:
        raise ImportRefused(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > LONGEST_FILE:
        raise ImportRefused(f"{path} is longer than {LONGEST_FILE >> 20} MiB")
    try:
        return read_presets(
            decoded(data),
            catalogue,
            folder=str(path.parent),
            ignore_unknown=settings.CORRAL_MODELS_PRESET_IGNORE_UNKNOWN,
        )
    except IniError as error:
        raise ImportRefused("\n".join(f"{path}: {fault}" for fault in error.faults)) from error


def _contents(path: Path) -> bytes:
    """No more than is looked at. Never waits: a pipe in its place is not read. Raises ImportRefused
    and OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ImportRefused(f"{path} is no file: name the INI file itself")
    with os.fdopen(descriptor, "rb") as file:
        return file.read(LONGEST_FILE + 1)


def apply(
    file: PresetsFile, source_options: Mapping[str, Mapping[str, str]] | None = None
) -> PresetsReport:
    """`source_options` are what sources say of presets, by name: they stand below the file's."""
    with transaction.atomic():
        return _Applying(file, source_options or {}).done()


class _Applying:
    def __init__(self, file: PresetsFile, source_options: Mapping[str, Mapping[str, str]]) -> None:
        self._file = file
        self._source_options = source_options
        self._report = PresetsReport(warnings=list(file.warnings))
        rows = Preset.objects.select_related("model_file").select_for_update(of=("self",))
        self._presets = {preset.name: preset for preset in rows}
        self._claimed: dict[str, PresetSection] = {}

    def done(self) -> PresetsReport:
        self._set_global()
        sections, conflicts = targets(self._file.presets, self._presets)
        self._report.conflicts += conflicts
        about = [name for name, section in sections.items() if self._put(name, section)]
        for name, preset in list(self._presets.items()):
            if name not in about:
                self._let_go(preset, still_named=name in sections)
        self._set_aliases({name: sections[name].aliases for name in about})
        for row in ModelFile.objects.filter(source=Source.PRESET_FILE, presets=None):
            _delete(row)
        return self._report

    def _set_global(self) -> None:
        said = self._file.of_all.said
        row = global_row() or GlobalPreset()
        if row.file_options != said:
            row.file_options = said
            _save(row)
            self._report.changed.append(str(row))

    def _put(self, name: str, section: PresetSection) -> bool:
        """Whether the preset `name` now says what the section says."""
        preset = self._presets.get(name)
        try:
            if preset is None:
                self._presets[name] = self._add(name, section)
                return True
            if section.names_a_model or preset.source == Source.PRESET_FILE:
                self._turn(preset, section)
        except NoModel as error:
            self._report.conflicts.append(str(error))
            return preset is not None and preset.source == Source.PRESET_FILE
        options = {**self._source_options.get(name, {}), **section.said}
        if preset.file_options != options:
            preset.file_options = options
            _save(preset)
            self._report.changed.append(name)
        return True

    def _add(self, name: str, section: PresetSection) -> Preset:
        alias = Alias.objects.select_related("preset").filter(name=name).first()
        if alias is not None and alias.from_file:
            _delete(alias)  # the file's own: its name is a section's now
        elif alias is not None:
            raise NoModel(
                f"{where(section)}: {name} is an alias of {alias.preset.name}: rename the section"
            )
        model_file = self._model_file(section)
        preset = Preset(
            name=name, model_file=model_file, source=Source.PRESET_FILE, file_options=section.said
        )
        _save(preset)
        self._report.added.append(name)
        return preset

    def _turn(self, preset: Preset, section: PresetSection) -> None:
        """To the file that the section names, if the preset is the presets file's own."""
        row = preset.model_file
        if row is not None and model_path(section) == row.path:
            self._set_companions(row, section)
        elif preset.source == Source.PRESET_FILE:
            preset.model_file = self._model_file(section)
            _save(preset)
            self._report.changed.append(preset.name)
        else:
            raise NoModel(
                f"{where(section)}: {preset.name} runs {preset.model_path or 'no file'}, which was "
                f"{preset.get_source_display()}: rename the section, or let it name no model"
            )

    def _model_file(self, section: PresetSection) -> ModelFile:
        """Of a file that is not there too: it may come. Raises NoModel."""
        path = model_path(section)
        row = ModelFile.objects.filter(path=path).first()
        if row is None:
            row = ModelFile(
                path=path,
                source=Source.PRESET_FILE,
                size=files_state(path).size,
                **companions(section),
            )
            _save(row)
            if problem := file_problem(path):
                self._report.warnings.append(f"{where(section)}: {path}: {problem}")
        self._set_companions(row, section)
        return row

    def _set_companions(self, row: ModelFile, section: PresetSection) -> None:
        wanted = companions(section)
        first = self._claimed.setdefault(row.path, section)
        if row.source == Source.PRESET_FILE and companions(first) == wanted:
            wanted = {"mmproj": section.mmproj, "draft": section.draft}
            if any(getattr(row, name) != value for name, value in wanted.items()):
                for name, value in wanted.items():
                    setattr(row, name, value)
                _save(row)
            return
        for name, value in wanted.items():
            if getattr(row, name) != value:
                self._report.conflicts.append(
                    f"{where(section)}: {value} is not taken: {row.path} has "
                    f"{getattr(row, name) or 'none'} already, and a model file has one"
                )

    def _let_go(self, preset: Preset, *, still_named: bool) -> None:
        """Of what the file no longer says anything of."""
        options = dict(self._source_options.get(preset.name, {}))
        if preset.source != Source.PRESET_FILE:
            if preset.file_options != options:
                preset.file_options = options
                _save(preset)
                self._report.changed.append(preset.name)
            return
        if still_named:
            return  # its section has a fault of its own, which is told
        if kept := self._kept_for(preset):
            preset.source, preset.file_options = Source.ADMIN, {}
            _save(preset)
            self._report.conflicts.append(f"{preset.name} is no longer in the file; kept: {kept}")
            return
        del self._presets[preset.name]
        self._report.removed.append(preset.name)

    def _kept_for(self, preset: Preset) -> str:
        """Why it stays; empty once it is deleted."""
        if is_patched(preset):
            return "someone has set something of it in the admin"
        if preset.aliases.filter(from_file=False).exists():
            return "someone has given it an alias"
        if preset.profiles.exists():
            return "it is in a profile"
        try:
            with transaction.atomic():
                _delete(preset)
        except RestrictedError:
            return "other presets have it as their base"
        return ""

    def _set_aliases(self, wanted: Mapping[str, tuple[str, ...]]) -> None:
        owners = {alias: name for name, aliases in wanted.items() for alias in aliases}
        rows = {row.name: row for row in Alias.objects.select_related("preset")}
        for row in list(rows.values()):
            if row.from_file and owners.get(row.name) != row.preset.name:
                _delete(row)
                del rows[row.name]
        for name, aliases in wanted.items():
            for alias in aliases:
                if alias in self._presets:
                    owner = "is the name of a preset"
                elif owners[alias] != name:
                    owner = f"is also an alias of {owners[alias]}"
                elif alias in rows and rows[alias].preset.name != name:
                    owner = f"is an alias of {rows[alias].preset.name}"
                else:
                    if alias not in rows:
                        _save(Alias(name=alias, preset=self._presets[name], from_file=True))
                    continue
                self._report.conflicts.append(f"[{name}]: the alias {alias} {owner}")


_NOT_THE_PATCH = {"id", "name", "model_file", "source", "file_options", "version"}


def is_patched(preset: Preset) -> bool:
    """Whether a person has set anything of it."""
    return any(
        getattr(preset, each.attname) not in (None, "", each.get_default())
        for each in Preset._meta.concrete_fields
        if each.name not in _NOT_THE_PATCH
    )


def _save(row: Model) -> None:
    changed: Any = row
    changed._change_reason = REASON
    row.save()


def _delete(row: Model) -> None:
    changed: Any = row
    changed._change_reason = REASON
    row.delete()
