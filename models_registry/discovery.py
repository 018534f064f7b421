"""Bring the registry in step with the models folder.

Only rows whose source is the models folder are touched. A file that vanished keeps its row and
its presets (a disk may be unmounted), marked as missing. When nothing changed nothing is saved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from django.db import transaction
from django.utils import timezone

from models_registry.models import Alias, ModelFile, Preset, Source
from models_registry.models_folder import Contents, FoundModel, read_models_folder
from models_registry.naming import unique_name


@dataclass(slots=True)
class Report:
    """What a rescan did, by preset name or path; `conflicts` and `problems` are sentences."""

    found: int = 0
    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(self.added or self.updated or self.missing or self.returned)

    def lines(self) -> list[str]:
        """For people; the first line is a summary."""
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
        models = "model" if self.found == 1 else "models"
        summary = f"{self.found} {models} in the folder: {', '.join(done) or 'nothing changed'}"
        return [
            summary,
            *(f"new: {name}" for name in self.added),
            *(f"missing: {path}" for path in self.missing),
            *self.conflicts,
            *self.problems,
        ]


def rescan(models_dir: Path) -> Report:
    """Read the folder, then change what must be in one transaction.

    Raises ModelsFolderMissing, and then has marked nothing as missing.
    """
    contents = read_models_folder(models_dir)
    report = Report(found=len(contents.models), problems=list(contents.problems))
    with transaction.atomic():
        known = {row.path: row for row in ModelFile.objects.select_for_update()}
        used = set(Preset.objects.values_list("model_file__path", flat=True))
        for found in contents.models:
            row = known.get(found.path)
            if row is None:
                row = ModelFile.objects.create(
                    path=found.path,
                    mmproj=found.mmproj,
                    size=found.size,
                    source=Source.MODELS_DIR,
                )
            elif row.source == Source.MODELS_DIR:
                _refresh(row, found, report)
            if row.source == Source.MODELS_DIR and found.path not in used:
                _add_preset(row, found, report)
        _mark_missing(known, contents, models_dir.expanduser().absolute(), report)
    return report


def _refresh(row: ModelFile, found: FoundModel, report: Report) -> None:
    if row.missing_since is not None:
        report.returned.append(row.path)
    elif (row.size, row.mmproj) != (found.size, found.mmproj):
        report.updated.append(row.path)
    else:
        return
    row.missing_since, row.size, row.mmproj = None, found.size, found.mmproj
    row.save()


def _add_preset(row: ModelFile, found: FoundModel, report: Report) -> None:
    """The default preset, under the found name when it is free.

    A name taken by another discovered model gets a number; one that a person (or the demo, or the
    command line) gave to something else is left alone, and the file then has no preset.
    """
    others = dict(Preset.objects.values_list("name", "source"))
    aliases = set(Alias.objects.values_list("name", flat=True))
    name = found.name
    if name in aliases or others.get(name, Source.MODELS_DIR) != Source.MODELS_DIR:
        owner = "an alias" if name in aliases else "another preset"
        report.conflicts.append(
            f"{found.path}: its name {name!r} belongs to {owner}; "
            "add a preset for this file under another name, or rename the other one"
        )
        return
    if name in others:
        name = unique_name(name, others.keys() | aliases)
        report.conflicts.append(f"{found.path}: {found.name!r} is taken, so it is named {name!r}")
    preset = Preset.objects.create(name=name, model_file=row, source=Source.MODELS_DIR)
    report.added.append(name)
    if found.alias and found.alias not in others.keys() | aliases:
        Alias.objects.create(name=found.alias, preset=preset)


def _mark_missing(
    known: dict[str, ModelFile], contents: Contents, folder: Path, report: Report
) -> None:
    seen = {found.path for found in contents.models}
    unknown = [Path(path) for path in contents.unknown]
    for path, row in known.items():
        if row.source != Source.MODELS_DIR or path in seen or row.missing_since is not None:
            continue
        file = Path(path)
        if any(file.is_relative_to(place) for place in unknown):
            continue
        if file.is_relative_to(folder) or not file.exists():
            row.missing_since = timezone.now()
            row.save()
            report.missing.append(path)
