"""A plan carried out by the rules of the admin's forms: name by name, and written at once.

What a person made is never overwritten: a name that is taken is told, and the rest goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.core.exceptions import ValidationError

from models_registry.access import Asker
from models_registry.errors import ManagementRefused
from models_registry.imports.plan import ImportReport, Plan, PlannedGroup, PlannedPreset, Skipped
from models_registry.models import Group, ModelFile, Preset
from models_registry.names import spellings
from models_registry.staging import Staging, imported

PERMISSIONS = tuple(
    f"models_registry.add_{model}" for model in ("preset", "modelfile", "alias", "group")
)
"""Who imports needs all of them."""


def apply(plan: Plan, asker: Asker, *, dry_run: bool = False) -> ImportReport:
    """With `dry_run` all is done and taken back, so that the report is exact. Raises
    ManagementRefused for one who may not, ImportRefused for too many presets."""
    lacking = [permission for permission in PERMISSIONS if not asker.may(permission)]
    if lacking:
        raise ManagementRefused(
            "permission_denied", f"{asker.label} may not import: {', '.join(lacking)} is needed."
        )
    return imported(lambda staging: _taken_up(plan, staging), asker, dry_run=dry_run)


def _taken_up(plan: Plan, staging: Staging) -> ImportReport:
    report = ImportReport(notes=list(plan.notes), skipped=list(plan.skipped))
    staging.read((), [preset.model for preset in plan.presets])
    groups = {group.name: _group(group, staging, report) for group in plan.groups}
    for preset in plan.presets:
        try:
            notes = _add_preset(preset, groups.get(preset.group), staging)
        except (ValidationError, ManagementRefused, _Conflict) as error:
            report.skipped.append(Skipped(preset.name, told_of(error)))
            continue
        report.added.append(preset.name)
        report.notes += notes
        _add_aliases(preset, staging, report)
    return report


class _Conflict(Exception):
    """It cannot be made beside what is there, or of it; the message says why."""


def _group(planned: PlannedGroup, staging: Staging, report: ImportReport) -> Group | None:
    """The group of that name, made if there is none; None when it cannot be."""
    fields = {
        "name": planned.name,
        "one_at_a_time": planned.one_at_a_time,
        "exclusive": planned.exclusive,
        "persistent": planned.persistent,
    }
    found = staging.groups.get(planned.name)
    if found is not None:
        if any(getattr(found, field) != value for field, value in fields.items()):
            report.notes.append(
                f"the group {planned.name} is there already with other rules: they stay as they are"
            )
        return found
    try:
        return staging.add_group(fields)
    except ValidationError as error:
        report.skipped.append(Skipped(f"group {planned.name}", told_of(error)))
        return None


def _add_preset(planned: PlannedPreset, group: Group | None, staging: Staging) -> list[str]:
    """What is to be said of it. Raises ValidationError, ManagementRefused or _Conflict."""
    if taken := _taken(planned.name, staging):
        raise _Conflict(taken)
    like = _like(planned.like, staging) if planned.like else None
    model_file, notes = (like.model_file, []) if like else _model_file(planned, staging)
    fields = {**planned.fields, "name": planned.name, "model_file": model_file}
    if group is not None:
        fields["group"] = group
    if planned.inherits and like is not None:
        fields["base"] = like
    staging.add_preset(fields)
    return notes


def _taken(name: str, staging: Staging) -> str:
    """What has the name; empty when nothing has."""
    if name in staging.names:
        return "a preset has this name already, and stays as it is"
    owner = staging.aliases.get(name)
    return f"it is an alias of {owner}" if owner is not None else ""


def _like(name: str, staging: Staging) -> Preset:
    """By the name as it is written, or as Ollama and the Hugging Face cache show it."""
    for shown in (*spellings(name), *_only_one_of(name, staging)):
        found = staging.preset(staging.aliases.get(shown, shown))
        if found is not None:
            return found
    raise _Conflict(
        f"no model here is called {name}: download it, or rescan the sources, and import again"
    )


def _only_one_of(repository: str, staging: Staging) -> Iterator[str]:
    """`user/repo` names its quantisation where there is only one."""
    if ":" not in repository and "/" in repository:
        found = [name for name in staging.names if name.startswith(f"{repository}:")]
        if len(found) == 1:
            yield found[0]


def _model_file(planned: PlannedPreset, staging: Staging) -> tuple[ModelFile, list[str]]:
    found = staging.model_file(planned.model)
    if found is None:
        fields = {"path": planned.model, "mmproj": planned.mmproj, "draft": planned.draft}
        try:
            return staging.new_file(fields), []
        except ValidationError as error:
            raise _Conflict(f"{planned.model}: {told_of(error)}") from error
    others = [
        f"{planned.name}: {path} is not taken: the model file {planned.model} is registered "
        f"{'with ' + there if there else 'without one'}; change it on its page"
        for path, there in ((planned.mmproj, found.mmproj), (planned.draft, found.draft))
        if path and path != there
    ]
    return found, others


def _add_aliases(planned: PlannedPreset, staging: Staging, report: ImportReport) -> None:
    for name, values in planned.aliases.items():
        if taken := _taken(name, staging):
            report.notes.append(f"{planned.name}: the alias {name} is not taken: {taken}")
            continue
        try:
            staging.add_alias(name, planned.name, values)
        except ValidationError as error:
            report.notes.append(f"{planned.name}: the alias {name} is not taken: {told_of(error)}")


def told_of(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error).rstrip(".")
    told = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
    return "; ".join(
        f"{field}: {message}".removeprefix(": ").rstrip(".")
        for field, messages in told.items()
        for message in messages
    )
