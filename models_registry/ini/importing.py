"""llama.cpp's INI taken over into the registry by a person: what it says becomes the presets' own
fields, by the rules of the admin's forms.
"""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import transaction

from models_registry import editing, patching
from models_registry.access import Asker
from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing, ImportRefused, ManagementRefused, OptionError
from models_registry.global_preset import the_global_preset
from models_registry.imports.applying import PERMISSIONS, told_of
from models_registry.imports.plan import ImportReport, Skipped
from models_registry.ini.presets import PresetSection, PresetsFile, read_presets, targets, where
from models_registry.ini.section_files import NoModel, companions, model_path
from models_registry.ini.text import IniError
from models_registry.models import Alias, ModelFile, Preset
from models_registry.options.catalogue import Catalogue, engine_catalogue
from models_registry.options.policy_keys import POLICY_KEYS
from models_registry.options.preset_options import read_lines, without

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
    """Name by name, in one transaction. What a preset already says otherwise is kept, and told,
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
    with transaction.atomic():
        report = _Importing(catalogue, asker, replace).take(file)
        transaction.set_rollback(dry_run)
    report.dry_run = dry_run
    return report


class _Conflict(Exception):
    """What is there stays; the message says why."""


_REFUSALS = (ValidationError, ManagementRefused, OptionError, NoModel, _Conflict)


class _Importing:
    def __init__(self, catalogue: Catalogue, asker: Asker, replace: bool) -> None:
        self._catalogue = catalogue
        self._asker = asker
        self._replace = replace
        self._report = ImportReport()

    def take(self, file: PresetsFile) -> ImportReport:
        self._report.notes += file.warnings
        known = set(Preset.objects.values_list("name", flat=True))
        sections, conflicts = targets(file.presets, known)
        self._report.notes += conflicts
        try:
            with transaction.atomic():
                self._set_global(file.of_all)
        except _REFUSALS as error:
            self._report.skipped.append(Skipped("[*]", told_of(error)))
        taken = []
        for name, section in sections.items():
            try:
                with transaction.atomic():
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
        row = the_global_preset()
        lines = read_lines(row.options, self._catalogue, policy=POLICY_KEYS)
        new = self._new_words(section.said, lines.options | lines.policy)
        if not new:
            return
        kept = without(row.options, new, self._catalogue)
        added = [f"{key} = {text}" for key, text in new.items()]
        row.options = "\n".join([kept, *added] if kept else added)
        editing.saved(row, self._asker)
        self._report.changed.append("[*]")

    def _new_words(self, words: dict[str, str], now: dict[str, str]) -> dict[str, str]:
        """Those that are not so already. Raises _Conflict where something would be overwritten."""
        others = sorted(key for key, text in words.items() if now.get(key, text) != text)
        if others and not self._replace:
            told = ", ".join(f"{key} is {now[key]}, not {words[key]}" for key in others)
            raise _Conflict(f"it says otherwise already ({told}): ask to replace it")
        return {key: text for key, text in words.items() if now.get(key) != text}

    def _put(self, name: str, section: PresetSection) -> None:
        preset = Preset.objects.select_related("model_file").filter(name=name).first()
        if preset is None:
            self._add(name, section)
            return
        words = self._new_words(section.said, patching.own_words(preset, self._catalogue))
        fields = patching.changes(preset, words, self._catalogue)
        if section.names_a_model:
            path = model_path(section)
            if path != preset.model_path and not self._replace:
                raise _Conflict(f"it runs {preset.model_path or 'no file'}: ask to replace it")
            if path != preset.model_path:
                fields["model_file"] = self._model_file(path, section).pk
        if fields:
            editing.change_preset(name, fields, self._asker)
            self._report.changed.append(name)

    def _add(self, name: str, section: PresetSection) -> None:
        model_file = self._model_file(model_path(section), section)
        fields = patching.changes(Preset(), section.said, self._catalogue)
        editing.create_preset({**fields, "name": name, "model_file": model_file.pk}, self._asker)
        self._report.added.append(name)

    def _model_file(self, path: str, section: PresetSection) -> ModelFile:
        named = companions(section)
        row = ModelFile.objects.filter(path=path).first()
        if row is None:
            return editing.add_model_file({"path": path, **named}, self._asker)
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
            if Alias.objects.filter(name=alias, preset__name=name).exists():
                continue
            try:
                with transaction.atomic():
                    editing.create_alias(alias, name, self._asker)
            except _REFUSALS as error:
                self._report.notes.append(
                    f"{where(section)}: the alias {alias} is not taken: {told_of(error)}"
                )
