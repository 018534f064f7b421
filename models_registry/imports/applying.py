"""A plan carried out by the rules of the admin's forms: name by name, in one transaction.

What a person made is never overwritten: a name that is taken is told, and the rest goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.core.exceptions import ValidationError
from django.db import transaction

from models_registry import editing
from models_registry.access import Asker
from models_registry.errors import ImportRefused, ManagementRefused
from models_registry.imports.plan import ImportReport, Plan, PlannedGroup, PlannedPreset, Skipped
from models_registry.models import Alias, Group, ModelFile, Preset

PERMISSIONS = tuple(
    f"models_registry.add_{model}" for model in ("preset", "modelfile", "alias", "group")
)
"""Who imports needs all of them."""

MOST_PRESETS = 100
"""In one import: until it ends nobody else can write, and others wait for that for 20 s."""


def apply(plan: Plan, asker: Asker, *, dry_run: bool = False) -> ImportReport:
    """With `dry_run` all is done and taken back, so that the report is exact. Raises
    ManagementRefused for one who may not, ImportRefused for more than MOST_PRESETS."""
    lacking = [permission for permission in PERMISSIONS if not asker.may(permission)]
    if lacking:
        raise ManagementRefused(
            "permission_denied", f"{asker.label} may not import: {', '.join(lacking)} is needed."
        )
    if len(plan.presets) > MOST_PRESETS:
        raise ImportRefused(
            f"it makes {len(plan.presets)} presets, where one import makes at most {MOST_PRESETS}: "
            "import it in parts"
        )
    report = ImportReport(notes=list(plan.notes), dry_run=dry_run)
    report.skipped += plan.skipped
    with transaction.atomic():
        groups = {group.name: _group(group, asker, report) for group in plan.groups}
        for preset in plan.presets:
            try:
                with transaction.atomic():
                    notes = _add_preset(preset, groups.get(preset.group), asker)
            except (ValidationError, ManagementRefused, _Conflict) as error:
                report.skipped.append(Skipped(preset.name, told_of(error)))
                continue
            report.added.append(preset.name)
            report.notes += notes
            _add_aliases(preset, asker, report)
        transaction.set_rollback(dry_run)
    return report


class _Conflict(Exception):
    """It cannot be made beside what is there, or of it; the message says why."""


def _group(planned: PlannedGroup, asker: Asker, report: ImportReport) -> Group | None:
    """The group of that name, made if there is none; None when it cannot be."""
    fields = {
        "name": planned.name,
        "one_at_a_time": planned.one_at_a_time,
        "exclusive": planned.exclusive,
        "persistent": planned.persistent,
    }
    found = Group.objects.filter(name=planned.name).first()
    if found is not None:
        if any(getattr(found, field) != value for field, value in fields.items()):
            report.notes.append(
                f"the group {planned.name} is there already with other rules: they stay as they are"
            )
        return found
    try:
        with transaction.atomic():
            return editing.create_group(fields, asker)
    except ValidationError as error:
        report.skipped.append(Skipped(f"group {planned.name}", told_of(error)))
        return None


def _add_preset(planned: PlannedPreset, group: Group | None, asker: Asker) -> list[str]:
    """What is to be said of it. Raises ValidationError, ManagementRefused or _Conflict."""
    if taken := _taken(planned.name):
        raise _Conflict(taken)
    like = _like(planned.like) if planned.like else None
    model_file, notes = (like.model_file, []) if like else _model_file(planned, asker)
    fields = {**planned.fields, "name": planned.name, "model_file": model_file and model_file.pk}
    if group is not None:
        fields["group"] = group.name
    if planned.inherits and like is not None:
        fields["base"] = like.name
    editing.create_preset(fields, asker)
    return notes


def _taken(name: str) -> str:
    """What has the name; empty when nothing has."""
    if Preset.objects.filter(name=name).exists():
        return "a preset has this name already, and stays as it is"
    alias = Alias.objects.select_related("preset").filter(name=name).first()
    return f"it is an alias of {alias.preset.name}" if alias is not None else ""


def _like(name: str) -> Preset:
    """By the name as it is written, or as Ollama and the Hugging Face cache show it."""
    rows = Preset.objects.select_related("model_file")
    for shown in _spellings(name):
        if (found := rows.filter(name=shown).first()) is not None:
            return found
        if (found := rows.filter(aliases__name=shown).first()) is not None:
            return found
    if (found := _only_one_of(name)) is not None:
        return found
    raise _Conflict(
        f"no model here is called {name}: download it, or rescan the sources, and import again"
    )


def _spellings(name: str) -> Iterator[str]:
    yield name
    shown = name.removeprefix("registry.ollama.ai/").removeprefix("library/")
    shown = shown.removesuffix(":latest")
    yield shown
    shown = shown.removeprefix("hf.co/").removeprefix("huggingface.co/")
    repository, colon, tag = shown.partition(":")
    yield f"{repository}{colon}{tag.upper()}"  # the cache's are named so, whoever asked how


def _only_one_of(repository: str) -> Preset | None:
    """`user/repo` names its quantisation where there is only one."""
    if ":" in repository or "/" not in repository:
        return None
    found = Preset.objects.select_related("model_file").filter(name__startswith=f"{repository}:")
    rows = list(found[:2])
    return rows[0] if len(rows) == 1 else None


def _model_file(planned: PlannedPreset, asker: Asker) -> tuple[ModelFile, list[str]]:
    found = ModelFile.objects.filter(path=planned.model).first()
    if found is None:
        fields = {"path": planned.model, "mmproj": planned.mmproj, "draft": planned.draft}
        try:
            return editing.add_model_file(fields, asker), []
        except ValidationError as error:
            raise _Conflict(f"{planned.model}: {told_of(error)}") from error
    others = [
        f"{planned.name}: {path} is not taken: the model file {planned.model} is registered "
        f"{'with ' + there if there else 'without one'}; change it on its page"
        for path, there in ((planned.mmproj, found.mmproj), (planned.draft, found.draft))
        if path and path != there
    ]
    return found, others


def _add_aliases(planned: PlannedPreset, asker: Asker, report: ImportReport) -> None:
    for name, values in planned.aliases.items():
        if taken := _taken(name):
            report.notes.append(f"{planned.name}: the alias {name} is not taken: {taken}")
            continue
        try:
            with transaction.atomic():
                editing.create_alias(name, planned.name, asker, request_set=values)
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
