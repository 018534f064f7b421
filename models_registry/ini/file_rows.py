"""What a presets file changes in the registry's rows: worked out first, then written at once.

Rows are made to say what the file says: only those that differ are written, and what a person set
is never touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.db.models import Q

from models_registry import bulk
from models_registry.ini.presets import PresetSection, PresetsFile, canonical_name, targets, where
from models_registry.ini.section_files import CachedFiles, NoModel, companions, model_path
from models_registry.model_paths import files_state
from models_registry.models import Alias, GlobalPreset, ModelFile, Preset, Profile, Source
from models_registry.options.inheritance import global_row
from models_registry.validation import file_problem

REASON = "the presets file"
"""What the history keeps."""


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


class FileRows:
    """The rows that the file is about, as they are, and what has to be done for them to say what
    the file says. `report` tells it."""

    def __init__(self, file: PresetsFile, source_options: Mapping[str, Mapping[str, str]]) -> None:
        self.report = PresetsReport(warnings=list(file.warnings))
        self._file = file
        self._source_options = source_options
        self._claimed: dict[str, PresetSection] = {}
        self._global: GlobalPreset | None = None  # where it has to be saved
        self._new_files: list[ModelFile] = []
        self._changed_files: dict[str, ModelFile] = {}
        self._gone_files: list[int] = []
        self._new_presets: list[Preset] = []
        self._changed_presets: dict[str, Preset] = {}
        self._gone_presets: list[int] = []
        self._new_aliases: list[Alias] = []
        self._gone_aliases: list[int] = []
        self._read_rows()
        self._plan()

    @property
    def changes(self) -> bool:
        return bool(
            self._global
            or self._new_files
            or self._changed_files
            or self._gone_files
            or self._new_presets
            or self._changed_presets
            or self._gone_presets
            or self._new_aliases
            or self._gone_aliases
        )

    def write(self) -> None:
        """In the transaction under way."""
        if self._global is not None:
            self._global._change_reason = REASON  # type: ignore[attr-defined]
            self._global.save()
        bulk.delete_aliases(self._gone_aliases, REASON)
        bulk.delete_presets(self._gone_presets, REASON)
        bulk.create(self._new_files, REASON)
        bulk.update(list(self._changed_files.values()), ("mmproj", "draft"), REASON)
        changed = list(self._changed_presets.values())
        for preset in (*self._new_presets, *changed):
            if preset.model_file is not None:
                preset.model_file_id = preset.model_file.pk  # which a new one has only now
        bulk.create(self._new_presets, REASON)
        bulk.update(changed, ("model_file", "source", "file_options"), REASON)
        for alias in self._new_aliases:
            alias.preset_id = alias.preset.pk
        bulk.create(self._new_aliases, REASON)
        bulk.delete_model_files(self._gone_files, REASON)

    # What there is ------------------------------------------------------------------------

    def _read_rows(self) -> None:
        """Whole rows only of what the file is about, or was: there may be ten thousand others."""
        sections = self._file.presets
        runs = Preset.objects.order_by().values_list("name", "model_file_id")
        self._names = {name for name, _ in runs}
        self._times_run: Counter[int | None] = Counter(key for _, key in runs)
        self._aliases = {alias.name: alias for alias in Alias.objects.select_related("preset")}
        sourced = (name for name, options in self._source_options.items() if options)
        about = {*sections, *map(canonical_name, sections), *sourced} & self._names
        said = Preset.objects.filter(Q(source=Source.PRESET_FILE) | ~Q(file_options={}))
        self._presets = dict(sorted({row.name: row for row in (*said, *_named(about))}.items()))
        self._names_of: dict[str, list[str]] = {}
        for alias in self._aliases.values():
            self._names_of.setdefault(alias.preset.name, []).append(alias.name)
        self._in_profiles = set(Profile.presets.through.objects.values_list("preset_id", flat=True))
        self._bases = set(Preset.objects.exclude(base=None).values_list("base_id", flat=True))
        cached = CachedFiles()
        self._paths: dict[str, str | NoModel] = {}
        for name, section in sections.items():
            try:
                self._paths[name] = model_path(section, cached)
            except NoModel as error:
                self._paths[name] = error
        paths = {path for path in self._paths.values() if isinstance(path, str)}
        keys = {preset.model_file_id for preset in self._presets.values()} - {None}
        rows = [*_files("path", paths), *_files("pk", keys)]
        rows += ModelFile.objects.filter(source=Source.PRESET_FILE)
        by_key = {row.pk: row for row in rows}
        self._files = {row.path: row for row in by_key.values()}
        for preset in self._presets.values():
            if preset.model_file_id is not None:
                preset.model_file = by_key[preset.model_file_id]

    # What has to be done --------------------------------------------------------------------

    def _plan(self) -> None:
        self._set_global()
        sections, conflicts = targets(self._file.presets, self._names)
        self.report.conflicts += conflicts
        about = [name for name, section in sections.items() if self._put(name, section)]
        kept = set(about)
        for name, preset in list(self._presets.items()):
            if name not in kept:
                self._let_go(preset, still_named=name in sections)
        self._set_aliases({name: sections[name].aliases for name in about})
        self._gone_files = [
            row.pk
            for row in self._files.values()
            if row.pk and row.source == Source.PRESET_FILE and not self._times_run[row.pk]
        ]

    def _set_global(self) -> None:
        said = self._file.of_all.said
        row = global_row() or GlobalPreset()
        if row.file_options != said:
            row.file_options = said
            self._global = row
            self.report.changed.append(str(row))

    def _put(self, name: str, section: PresetSection) -> bool:
        """Whether the preset `name` then says what the section says."""
        preset = self._presets.get(name)
        try:
            if preset is None:
                self._add(name, section)
                return True
            if section.names_a_model or preset.source == Source.PRESET_FILE:
                self._turn(preset, section)
        except NoModel as error:
            self.report.conflicts.append(str(error))
            return preset is not None and preset.source == Source.PRESET_FILE
        self._say(preset, {**self._source_options.get(name, {}), **section.said})
        return True

    def _add(self, name: str, section: PresetSection) -> None:
        alias = self._aliases.get(name)
        if alias is not None and alias.from_file:
            self._drop(alias)  # the file's own: its name is a section's now
        elif alias is not None:
            raise NoModel(
                f"{where(section)}: {name} is an alias of {alias.preset.name}: rename the section"
            )
        model_file = self._model_file(section)
        preset = Preset(
            name=name, model_file=model_file, source=Source.PRESET_FILE, file_options=section.said
        )
        self._presets[name] = preset
        self._names.add(name)
        self._new_presets.append(preset)
        self._times_run[model_file.pk] += 1
        self.report.added.append(name)

    def _turn(self, preset: Preset, section: PresetSection) -> None:
        """To the file that the section names, if the preset is the presets file's own."""
        row = preset.model_file
        if row is not None and self._path(section) == row.path:
            self._set_companions(row, section)
        elif preset.source == Source.PRESET_FILE:
            self._times_run[preset.model_file_id] -= 1
            preset.model_file = self._model_file(section)
            self._times_run[preset.model_file.pk] += 1
            self._change(preset)
        else:
            raise NoModel(
                f"{where(section)}: {preset.name} runs {preset.model_path or 'no file'}, which was "
                f"{preset.get_source_display()}: rename the section, or let it name no model"
            )

    def _say(self, preset: Preset, options: dict[str, str]) -> None:
        if preset.file_options != options:
            preset.file_options = options
            self._change(preset)

    def _change(self, preset: Preset) -> None:
        if preset.name not in self._changed_presets:
            self.report.changed.append(preset.name)
        self._changed_presets[preset.name] = preset

    def _path(self, section: PresetSection) -> str:
        """Raises NoModel."""
        path = self._paths[section.name]
        if isinstance(path, NoModel):
            raise path
        return path

    def _model_file(self, section: PresetSection) -> ModelFile:
        """Of a file that is not there too: it may come. Raises NoModel."""
        path = self._path(section)
        row = self._files.get(path)
        if row is None:
            row = ModelFile(
                path=path,
                source=Source.PRESET_FILE,
                size=files_state(path).size,
                **companions(section),
            )
            self._files[path] = row
            self._new_files.append(row)
            if problem := file_problem(path):
                self.report.warnings.append(f"{where(section)}: {path}: {problem}")
        self._set_companions(row, section)
        return row

    def _set_companions(self, row: ModelFile, section: PresetSection) -> None:
        wanted = companions(section)
        first = self._claimed.setdefault(row.path, section)
        if row.source == Source.PRESET_FILE and companions(first) == wanted:
            if (row.mmproj, row.draft) != (section.mmproj, section.draft):
                row.mmproj, row.draft = section.mmproj, section.draft
                self._changed_files[row.path] = row
            return
        for name, value in wanted.items():
            if getattr(row, name) != value:
                self.report.conflicts.append(
                    f"{where(section)}: {value} is not taken: {row.path} has "
                    f"{getattr(row, name) or 'none'} already, and a model file has one"
                )

    def _let_go(self, preset: Preset, *, still_named: bool) -> None:
        """Of what the file no longer says anything of."""
        if preset.source != Source.PRESET_FILE:
            self._say(preset, dict(self._source_options.get(preset.name, {})))
            return
        if still_named:
            return  # its section has a fault of its own, which is told
        if kept := self._kept_for(preset):
            preset.source, preset.file_options = Source.ADMIN, {}
            self._changed_presets[preset.name] = preset
            self.report.conflicts.append(f"{preset.name} is no longer in the file; kept: {kept}")
            return
        self._gone_presets.append(preset.pk)
        self._times_run[preset.model_file_id] -= 1
        del self._presets[preset.name]
        self._names.discard(preset.name)
        for alias in self._aliases_of(preset.name):
            del self._aliases[alias.name]
        self.report.removed.append(preset.name)

    def _kept_for(self, preset: Preset) -> str:
        """Why it stays; empty when it may go."""
        if is_patched(preset):
            return "someone has set something of it in the admin"
        if any(not alias.from_file for alias in self._aliases_of(preset.name)):
            return "someone has given it an alias"
        if preset.pk in self._in_profiles:
            return "it is in a profile"
        if preset.pk in self._bases:
            return "other presets have it as their base"
        return ""

    def _aliases_of(self, preset: str) -> list[Alias]:
        names = self._names_of.get(preset, ())
        return [self._aliases[name] for name in names if name in self._aliases]

    def _drop(self, alias: Alias) -> None:
        self._gone_aliases.append(alias.pk)
        del self._aliases[alias.name]

    def _set_aliases(self, wanted: Mapping[str, tuple[str, ...]]) -> None:
        owners = {alias: name for name, aliases in wanted.items() for alias in aliases}
        for row in list(self._aliases.values()):
            if row.from_file and owners.get(row.name) != row.preset.name:
                self._drop(row)
        for name, aliases in wanted.items():
            for alias in aliases:
                there = self._aliases.get(alias)
                if alias in self._names:
                    owner = "is the name of a preset"
                elif owners[alias] != name:
                    owner = f"is also an alias of {owners[alias]}"
                elif there is not None and there.preset.name != name:
                    owner = f"is an alias of {there.preset.name}"
                else:
                    if there is None:
                        made = Alias(name=alias, preset=self._presets[name], from_file=True)
                        self._new_aliases.append(made)
                    continue
                self.report.conflicts.append(f"[{name}]: the alias {alias} {owner}")


def _named(names: Iterable[str]) -> list[Preset]:
    parts = bulk.batches(names)
    return [row for part in parts for row in Preset.objects.filter(name__in=part)]


def _files(key: str, values: Iterable[object]) -> list[ModelFile]:
    parts = bulk.batches(values)
    return [row for part in parts for row in ModelFile.objects.filter(**{f"{key}__in": part})]


_NOT_THE_PATCH = {"id", "name", "model_file", "source", "file_options", "version"}


def is_patched(preset: Preset) -> bool:
    """Whether a person has set anything of it."""
    return any(
        getattr(preset, each.attname) not in (None, "", each.get_default())
        for each in Preset._meta.concrete_fields
        if each.name not in _NOT_THE_PATCH
    )
