"""Bring the registry in step with the sources: the models folder, the Hugging Face cache, Ollama's
store.

Everything is read first. Then, unless nothing has changed, one transaction (several while there
are thousands of new models): rows that are as they should be are not touched. A file that vanished
keeps its row and its presets (a disk may be unmounted) and is marked as missing; of a source whose
folder cannot be listed nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from models_registry import bulk
from models_registry.audit.actors import Door, through
from models_registry.history import WITH_ITS_OWNER
from models_registry.ini import preset_file
from models_registry.ini.file_rows import REASON as BY_PRESETS_FILE
from models_registry.ini.file_rows import PresetsReport
from models_registry.models import Alias, ModelFile, Preset, RegistryRevision, Source
from models_registry.sources.discovery_plan import FileRow, Plan, PresetRow, Rows, plan
from models_registry.sources.reading import CALLED, Places, Reading, read_sources

REASON = "a rescan"
"""What the history keeps, whoever asked for the rescan."""

PASSED_ON = "the quantisation that it led to was deleted"
FETCHED = "a download"
"""The same of short names that were passed on, or given to the first that was fetched."""

MOST_NEW = 2000
"""New models in one transaction: while it lasts, half a second, nobody else can write."""

MOST_LINES = 100
"""Of a report for people: the admin lists the rows themselves."""

_FILE_FIELDS = ["path", "source", "size", "mmproj", "draft", "missing_since"]


@dataclass(slots=True)
class Report:
    """What a rescan did, by preset name or path; `conflicts`, `problems`, `notes` and `vanished`
    (sources that could not be listed) are sentences. `presets_file` is what the
    presets file did; with a `presets_fault`, which names its lines, nothing was changed."""

    found: dict[str, int] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)
    presets_file: PresetsReport | None = None
    presets_fault: str = ""

    @property
    def changed(self) -> bool:
        by_file = self.presets_file is not None and self.presets_file.changes
        return bool(self.added or self.updated or self.missing or self.returned or by_file)

    @property
    def faults(self) -> list[str]:
        """What kept it from its work, in part or wholly; `lines` has them too."""
        return [*self.vanished, *self.presets_fault.splitlines()]

    def lines(self) -> list[str]:
        """For people, at most MOST_LINES; the first line is a summary."""
        told = [self._summary(), *self._details()]
        if len(told) > MOST_LINES:
            told[MOST_LINES - 1 :] = [f"and {len(told) - MOST_LINES + 1} lines more"]
        return told

    def _summary(self) -> str:
        done = [
            f"{len(names)} {word}"
            for word, names in (
                ("new", self.added),
                ("changed", self.updated),
                ("missing", self.missing),
                ("back", self.returned),
            )
            if names
        ]
        found = ", ".join(
            f"{count} {'model' if count == 1 else 'models'} in {CALLED[Source(source)]}"
            for source, count in self.found.items()
        )
        return f"{found or 'no source could be read'}: {', '.join(done) or 'nothing changed'}"

    def _details(self) -> list[str]:
        return [
            *self.faults,
            *(f"new: {name}" for name in self.added),
            *(f"missing: {path}" for path in self.missing),
            *self.conflicts,
            *self.problems,
            *self.notes,
            *(self.presets_file.lines() if self.presets_file else ()),
        ]


def rescan(places: Places) -> Report:
    """Read the sources, then change what must be in one transaction. A fault in the presets file,
    and nothing is changed at all."""
    reading = read_sources(places)
    if reading.presets_fault:
        return _report(reading, [])
    with through(Door.RESCAN):
        return _brought_in_step(reading, places)


def _brought_in_step(reading: Reading, places: Places) -> Report:
    with_file = places.presets_file is not None
    first = plan(reading, _rows(with_file), MOST_NEW)
    if not first.changes:
        report = _report(reading, [first])
        if reading.presets is not None:
            report.presets_file = preset_file.apply(reading.presets, first.options)
        return report
    done = [_transaction(reading, with_file)]
    while not done[-1][0].is_whole:
        done.append(_transaction(reading, with_file))
    report = _report(reading, [made for made, _ in done])
    report.presets_file = done[-1][1]
    return report


def _transaction(reading: Reading, with_file: bool) -> tuple[Plan, PresetsReport | None]:
    """Planned with the rows as they are in it, whoever changed them meanwhile; and what the presets
    file did once all that was found is there."""
    with transaction.atomic():
        list(RegistryRevision.objects.select_for_update())  # one rescan at a time, on any database
        made = plan(reading, _rows(with_file), MOST_NEW)
        if made.changes:
            _apply(made)
        if made.is_whole and reading.presets is not None:
            return made, preset_file.apply(reading.presets, made.options)
    return made, None


def _report(reading: Reading, done: list[Plan]) -> Report:
    return Report(
        found={source.value: len(contents.models) for source, contents in reading.sources},
        added=sorted(name for made in done for name in made.new_presets),
        updated=sorted({name for made in done for name in _updated(made)}),
        missing=sorted(path for made in done for path in made.missing),
        returned=sorted(path for made in done for path in made.returned),
        conflicts=list(dict.fromkeys(line for made in done for line in made.conflicts)),
        problems=[line for _, contents in reading.sources for line in contents.problems],
        notes=[line for made in done for line in made.notes],
        vanished=reading.vanished,
        presets_fault=reading.presets_fault,
    )


def _updated(made: Plan) -> set[str]:
    named = set(made.new_aliases.values()) - made.new_presets.keys()
    changed = {*made.changed_files, *made.turned_presets, *made.stale_options}
    return changed - {*made.returned} | named


def _rows(with_file: bool) -> Rows:
    """Values, not rows: there may be ten thousand, and most of them are as they should be."""
    files = {
        path: FileRow(path, source, size, mmproj, draft, missing is not None)
        for path, source, size, mmproj, draft, missing in ModelFile.objects.order_by().values_list(
            "path", "source", "size", "mmproj", "draft", "missing_since"
        )
    }
    presets = {
        name: PresetRow(name, source, path or "")
        for name, source, path in Preset.objects.order_by().values_list(
            "name", "source", "model_file__path"
        )
    }
    from_ollama = Preset.objects.filter(source=Source.OLLAMA)
    for name, options in from_ollama.values_list("name", "file_options"):
        presets[name].options = options
    aliases = dict(Alias.objects.order_by().values_list("name", "preset__model_file__path"))
    return Rows(files, presets, aliases, _is_persons, _is_freed, _is_found, presets_file=with_file)


def _is_persons(path: str) -> bool:
    """Whether somebody has edited the row of this file: a rescan's own records name it as such."""
    history: Any = getattr(ModelFile, "history")  # noqa: B009 - what HistoricalRecords adds
    row = ModelFile.objects.filter(path=path).values_list("pk", flat=True)
    by_someone = Q(history_user__isnull=False) | Q(history_change_reason__isnull=False)
    edits = history.filter(by_someone, id__in=row, history_type="~")
    return bool(edits.exclude(history_change_reason=REASON).exists())


def _is_freed(alias: str) -> bool:
    """Whether it was renamed, or deleted for its own sake: it does not come back then."""
    history: Any = getattr(Alias, "history")  # noqa: B009
    last = history.filter(name=alias).order_by("-history_id").first()
    if last is None:
        return False
    return last.history_type != "-" or last.history_change_reason not in (
        WITH_ITS_OWNER, BY_PRESETS_FILE,
    )  # fmt: skip


def _is_found(alias: str) -> bool:
    """Whether Corral gave it, and nobody has changed it since: a person's stays where it is."""
    history: Any = getattr(Alias, "history")  # noqa: B009
    last = history.filter(name=alias).order_by("-history_id").first()
    return last is not None and last.history_change_reason in (REASON, PASSED_ON, FETCHED)


def _apply(made: Plan) -> None:
    _update_files(made)
    bulk.create(
        (
            ModelFile(
                path=path, mmproj=found.mmproj, draft=found.draft, size=found.size, source=source
            )
            for path, (source, found) in made.new_files.items()
        ),
        REASON,
    )
    _update_presets(made)
    wanted = {preset.path for preset in made.new_presets.values()}
    keys = _keys_of(wanted)
    bulk.create(
        (
            Preset(
                name=preset.name,
                model_file_id=keys[preset.path],
                source=preset.source,
                file_options=dict(preset.options),
            )
            for preset in made.new_presets.values()
        ),
        REASON,
    )
    _give_aliases(made)


def _give_aliases(made: Plan) -> None:
    """Some of them are there, and led to what is gone."""
    owners = {row.name: row.pk for row in _in_batches(Preset, "name", {*made.new_aliases.values()})}
    there = _in_batches(Alias, "name", made.new_aliases)
    for row in there:
        row.preset_id = owners[made.new_aliases[row.name]]
    bulk.update(there, ["preset"], REASON)
    known = {row.name for row in there}
    bulk.create(
        (
            Alias(name=alias, preset_id=owners[name])
            for alias, name in made.new_aliases.items()
            if alias not in known
        ),
        REASON,
    )


def _update_files(made: Plan) -> None:
    now = timezone.now()
    gone = {path: {"missing_since": now} for path in made.missing}
    changes = gone | made.changed_files
    rows = _in_batches(ModelFile, "path", changes)
    for row in rows:
        for name, value in changes[row.path].items():
            setattr(row, name, value)
    bulk.update(rows, _FILE_FIELDS, REASON)


def _update_presets(made: Plan) -> None:
    """Turned to another file, or with other options from their source."""
    keys = _keys_of({preset.path for preset in made.turned_presets.values()})
    names = {*made.turned_presets, *made.stale_options}
    rows = _in_batches(Preset, "name", names)
    for row in rows:
        turned = made.turned_presets.get(row.name)
        if turned is not None:
            row.model_file_id, row.source = keys[turned.path], turned.source
        if row.name in made.stale_options:
            row.file_options = dict(made.stale_options[row.name])
    bulk.update(rows, ["model_file", "source", "file_options"], REASON)


def _keys_of(paths: Iterable[str]) -> Mapping[str, int]:
    return {row.path: row.pk for row in _in_batches(ModelFile, "path", paths)}


def _in_batches(model: Any, key: str, values: Iterable[str]) -> list[Any]:
    """The rows whose `key` is among `values`: a query takes so many parameters and no more."""
    parts = bulk.batches(values)
    return [row for part in parts for row in model.objects.filter(**{f"{key}__in": part})]
