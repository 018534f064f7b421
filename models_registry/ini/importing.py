"""llama.cpp's INI taken over into the registry by a person: what it says becomes the presets' own
fields, by the rules of the admin's forms.
"""

from __future__ import annotations

from django.core.exceptions import ValidationError

from models_registry import patching
from models_registry.access import Asker
from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing, ImportRefused, ManagementRefused, OptionError
from models_registry.imports.applying import PERMISSIONS, told_of
from models_registry.imports.plan import ImportReport, Skipped
from models_registry.ini.presets import PresetSection, PresetsFile, read_presets, targets, where
from models_registry.ini.section_files import CachedFiles, NoModel, companions, model_path
from models_registry.ini.text import IniError
from models_registry.models import ModelFile, Preset
from models_registry.options.catalogue import Catalogue, engine_catalogue
from models_registry.options.policy_keys import POLICY_KEYS
from models_registry.options.preset_options import read_lines, without
from models_registry.staging import Staging, imported

NEEDED = (*PERMISSIONS, "models_registry.change_preset")
"""Who imports needs all of them."""


def import_ini(
    text: str,
    asker: Asker,
    *,
    folder: str = "",
    dry_run: bool = False,
    ignore_unknown: bool = False,
    replace: bool = False,
) -> ImportReport:
    """Name by name, and written at once. What a preset already says otherwise is kept, and told,
    unless `replace`. With `dry_run` all is done and taken back, so that the report is exact.

    Raises ImportRefused with every faulty line, and ManagementRefused for one who may not.
    """
    lacking = [permission for permission in NEEDED if not asker.may(permission)]
    if lacking:
        raise ManagementRefused(
            "permission_denied", f"{asker.label} may not import: {', '.join(lacking)} is needed."
        )
    try:
        catalogue = engine_catalogue(llama_server())
        file = read_presets(text, catalogue, folder=folder, ignore_unknown=ignore_unknown)
    except EngineMissing as error:
        raise ImportRefused(f"its options cannot be checked now: {error}") from error
    except IniError as error:
        raise ImportRefused(str(error)) from error
    return imported(
        lambda staging: _Importing(catalogue, asker, staging, replace).take(file),
        asker,
        dry_run=dry_run,
    )


class _Conflict(Exception):
    """What is there stays; the message says why."""


_REFUSALS = (ValidationError, ManagementRefused, OptionError, NoModel, _Conflict)


class _Importing:
    def __init__(self, catalogue: Catalogue, asker: Asker, staging: Staging, replace: bool) -> None:
        self._catalogue = catalogue
        self._asker = asker
        self._staging = staging
        self._cached = CachedFiles()
        self._replace = replace
        self._report = ImportReport()

    def take(self, file: PresetsFile) -> ImportReport:
        self._report.notes += file.warnings
        sections, conflicts = targets(file.presets, self._staging.names)
        self._report.notes += conflicts
        self._staging.read(sections, [section.model for section in sections.values()])
        try:
            self._set_global(file.of_all)
        except _REFUSALS as error:
            self._report.skipped.append(Skipped("[*]", told_of(error)))
        taken = []
        for name, section in sections.items():
            try:
                self._put(name, section)
            except _REFUSALS as error:
                self._report.skipped.append(Skipped(name, told_of(error)))
            else:
                taken.append((name, section))
        for name, section in taken:
            self._add_aliases(name, section)
        return self._report

    def _set_global(self, section: PresetSection) -> None:
        if not section.said:
            return
        if not self._asker.everything:
            raise _Conflict("only superusers and admin keys may change what counts for all presets")
        row = self._staging.of_all()
        now = row.options if row is not None else ""
        lines = read_lines(now, self._catalogue, policy=POLICY_KEYS)
        new = self._new_words(section.said, lines.options | lines.policy)
        if not new:
            return
        kept = without(now, new, self._catalogue)
        added = [f"{key} = {text}" for key, text in new.items()]
        self._staging.set_global("\n".join([kept, *added] if kept else added))
        self._report.changed.append("[*]")

    def _new_words(self, words: dict[str, str], now: dict[str, str]) -> dict[str, str]:
        """Those that are not so already. Raises _Conflict where something would be overwritten."""
        others = sorted(key for key, text in words.items() if now.get(key, text) != text)
        if others and not self._replace:
            told = ", ".join(f"{key} is {now[key]}, not {words[key]}" for key in others)
            raise _Conflict(f"it says otherwise already ({told}): ask to replace it")
        return {key: text for key, text in words.items() if now.get(key) != text}

    def _put(self, name: str, section: PresetSection) -> None:
        preset = self._staging.preset(name)
        if preset is None:
            self._add(name, section)
            return
        words = self._new_words(section.said, patching.own_words(preset, self._catalogue))
        fields = patching.changes(preset, words, self._catalogue)
        if section.names_a_model:
            path = model_path(section, self._cached)
            if path != preset.model_path and not self._replace:
                raise _Conflict(f"it runs {preset.model_path or 'no file'}: ask to replace it")
            if path != preset.model_path:
                fields["model_file"] = self._model_file(path, section)
        if fields and self._staging.change_preset(name, fields):
            self._report.changed.append(name)

    def _add(self, name: str, section: PresetSection) -> None:
        model_file = self._model_file(model_path(section, self._cached), section)
        fields = patching.changes(Preset(), section.said, self._catalogue)
        self._staging.add_preset({**fields, "name": name, "model_file": model_file})
        self._report.added.append(name)

    def _model_file(self, path: str, section: PresetSection) -> ModelFile:
        named = companions(section)
        row = self._staging.model_file(path)
        if row is None:
            return self._staging.new_file({"path": path, **named})
        for field, companion in named.items():
            if getattr(row, field) != companion:
                self._report.notes.append(
                    f"{where(section)}: {companion} is not taken: {row.path} has "
                    f"{getattr(row, field) or 'none'}, and a model file has one; change it on its "
                    "page"
                )
        return row

    def _add_aliases(self, name: str, section: PresetSection) -> None:
        for alias in section.aliases:
            if self._staging.aliases.get(alias) == name:
                continue
            try:
                self._staging.add_alias(alias, name)
            except _REFUSALS as error:
                self._report.notes.append(
                    f"{where(section)}: the alias {alias} is not taken: {told_of(error)}"
                )
