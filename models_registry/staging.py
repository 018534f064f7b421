"""What an import makes of the registry: checked by the rules of the admin's forms against the rows
as they are and as they will be, while others go on writing; then written at once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.core.exceptions import ValidationError

from models_registry import bulk
from models_registry.access import Asker
from models_registry.editing import check_restricted
from models_registry.errors import ImportRefused
from models_registry.imports.plan import ImportReport
from models_registry.ini.text import first_told
from models_registry.model_paths import files_state
from models_registry.models import Alias, GlobalPreset, Group, ModelFile, Preset
from models_registry.options.inheritance import global_row
from models_registry.revision import planned
from models_registry.tags import joined
from models_registry.validation import check_alias, check_preset

MOST_PRESETS = 2000
"""Made or changed by one import: while they are written, half a second, nobody else can write."""

_ROWS = ("model_file", "base", "group")


def imported(
    take: Callable[[Staging], ImportReport], asker: Asker, *, dry_run: bool
) -> ImportReport:
    """`take` stages what is to be imported, and is called again when somebody has changed the
    registry meanwhile. Raises what it raises, and ImportRefused for more than MOST_PRESETS."""

    def stage() -> _Import:
        staging = Staging(asker)
        report = take(staging)
        if staging.presets_written > MOST_PRESETS:
            raise ImportRefused(
                f"it makes or changes {staging.presets_written} presets, where one import does at "
                f"most {MOST_PRESETS}: import it in parts"
            )
        report.notes = first_told(report.notes)
        report.dry_run = dry_run
        return _Import(staging, report)

    return (stage() if dry_run else planned(stage, _Import.write)).report


class _Import:
    def __init__(self, staging: Staging, report: ImportReport) -> None:
        self._staging = staging
        self.report = report

    @property
    def changes(self) -> bool:
        return self._staging.changes

    def write(self) -> None:
        self._staging.write()


class Staging:
    """Rows as they are, with what was staged. What cannot be staged raises ValidationError or
    ManagementRefused, and leaves everything as it was."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self.names = set(Preset.objects.order_by().values_list("name", flat=True))
        self.aliases = dict(Alias.objects.order_by().values_list("name", "preset__name"))
        """By name, the name of the preset that each leads to."""
        self.groups = {group.name: group for group in Group.objects.all()}
        self._global = global_row()
        self._global_changed = False
        self._presets: dict[str, Preset] = {}
        self._files: dict[str, ModelFile] = {}
        self._new_groups: list[Group] = []
        self._new_files: list[ModelFile] = []
        self._new_presets: dict[str, Preset] = {}
        self._changed_presets: dict[str, Preset] = {}
        self._changed_fields: set[str] = set()
        self._new_aliases: list[Alias] = []

    # What there is ------------------------------------------------------------------------

    def read(self, presets: Iterable[str], paths: Iterable[str]) -> None:
        """Those rows in few queries; any other is read when it is asked for."""
        rows = Preset.objects.select_related(*_ROWS)
        for names in bulk.batches(self.names.intersection(presets)):
            self._presets |= {row.name: row for row in rows.filter(name__in=names)}
        for part in bulk.batches(paths):
            found = ModelFile.objects.filter(path__in=part)
            self._files |= {row.path: row for row in found}

    def preset(self, name: str) -> Preset | None:
        if name in self.names and name not in self._presets:
            self._presets[name] = Preset.objects.select_related(*_ROWS).get(name=name)
        return self._presets.get(name)

    def model_file(self, path: str) -> ModelFile | None:
        if path not in self._files:
            row = ModelFile.objects.filter(path=path).first()
            if row is None:
                return None
            self._files[path] = row
        return self._files[path]

    def of_all(self) -> GlobalPreset | None:
        return self._global

    def is_alias(self, name: str) -> bool:
        return name in self.aliases

    def is_preset(self, name: str) -> bool:
        return name in self.names

    # What is to be ------------------------------------------------------------------------

    def new_file(self, fields: Mapping[str, Any]) -> ModelFile:
        """Staged with the first preset that runs it."""
        row = ModelFile(**fields)
        row.full_clean()
        row.size = files_state(row.path).size
        return row

    def add_preset(self, fields: Mapping[str, Any]) -> None:
        """`model_file`, `base` and `group` are rows; words come as lists."""
        check_restricted(Preset(), fields, self._asker)
        preset = Preset(**_joined(fields))
        self._check(preset)
        self._take_file(preset)
        self._new_presets[preset.name] = self._presets[preset.name] = preset
        self.names.add(preset.name)

    def change_preset(self, name: str, fields: Mapping[str, Any]) -> bool:
        """Whether that changes anything of it."""
        before = self.preset(name)
        assert before is not None
        check_restricted(before, fields, self._asker)
        preset = copy.copy(before)
        for field, value in _joined(fields).items():
            setattr(preset, field, value)
        changed = {field for field in fields if getattr(before, field) != getattr(preset, field)}
        if not changed:
            return False
        self._check(preset)
        self._take_file(preset)
        self._presets[name] = preset
        if name in self._new_presets:
            self._new_presets[name] = preset
        else:
            self._changed_presets[name] = preset
            self._changed_fields |= changed
        return True

    def add_alias(
        self, name: str, preset: str, request_set: Mapping[str, Any] | None = None
    ) -> None:
        alias = Alias(name=name, preset=self.preset(preset), request_set=dict(request_set or {}))
        taken = _taken(alias) if name in self.aliases else _NOTHING
        _raise_all(
            lambda: alias.clean_fields(exclude=("preset",)),
            lambda: check_alias(alias, self),
            **taken,
        )
        self._new_aliases.append(alias)
        self.aliases[name] = preset

    def add_group(self, fields: Mapping[str, Any]) -> Group:
        group = Group(**fields)
        group.full_clean()
        self._new_groups.append(group)
        self.groups[group.name] = group
        return group

    def set_global(self, options: str) -> None:
        row = copy.copy(self._global) if self._global is not None else GlobalPreset(pk=1)
        row.options = options
        row.full_clean()
        self._global, self._global_changed = row, True

    # Writing ------------------------------------------------------------------------------

    @property
    def presets_written(self) -> int:
        return len(self._new_presets) + len(self._changed_presets)

    @property
    def changes(self) -> bool:
        return bool(
            self.presets_written or self._new_aliases or self._new_groups or self._global_changed
        )

    def write(self) -> None:
        """In the transaction under way."""
        reason = self._asker.label
        own: list[Any] = list(self._new_groups)
        if self._global_changed:
            own.append(self._global)
        for row in own:
            row._change_reason = reason
            row.save()
        bulk.create(self._new_files, reason)
        self._write_new_presets(reason)
        changed = list(self._changed_presets.values())
        _set_keys(changed)
        bulk.update(changed, self._changed_fields, reason)
        for alias in self._new_aliases:
            owner = self._presets[self.aliases[alias.name]]
            alias.preset_id = owner.pk
        bulk.create(self._new_aliases, reason)

    def _write_new_presets(self, reason: str) -> None:
        """Those on which others stand before these."""
        left = list(self._new_presets.values())
        while left:
            ready = [each for each in left if each.base is None or each.base.pk is not None]
            _set_keys(ready)
            bulk.create(ready, reason)
            left = [each for each in left if each.pk is None]

    def _check(self, preset: Preset) -> None:
        is_new = preset.pk is None and preset.name not in self._new_presets
        taken = _taken(preset) if is_new and preset.name in self.names else _NOTHING
        _raise_all(
            lambda: preset.clean_fields(exclude=_ROWS),
            lambda: check_preset(preset, self),
            **taken,
        )

    def _take_file(self, preset: Preset) -> None:
        row = preset.model_file
        if row is not None and row.pk is None and row.path not in self._files:
            self._files[row.path] = row
            self._new_files.append(row)


def _set_keys(presets: Iterable[Preset]) -> None:
    """Of the rows that each names, which new ones have only once they are written."""
    for preset in presets:
        for field in _ROWS:
            row = getattr(preset, field)
            setattr(preset, f"{field}_id", row.pk if row is not None else None)


def _joined(fields: Mapping[str, Any]) -> dict[str, Any]:
    words = {"tags", "request_strip"} & fields.keys()
    return {**fields, **{field: joined(fields[field]) for field in words}}


_NOTHING: dict[str, list[Any]] = {}


def _taken(row: Any) -> dict[str, list[Any]]:
    return {"name": [row.unique_error_message(type(row), ("name",))]}


def _raise_all(*checks: Callable[[], None], **errors: list[Any]) -> None:
    """Every fault, as full_clean does without asking the database."""
    for check in checks:
        try:
            check()
        except ValidationError as error:
            errors = error.update_error_dict(errors)
    if errors:
        raise ValidationError(errors)
