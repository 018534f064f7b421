"""A fetched model becomes one that is offered, under the name that a rescan would give it."""

from __future__ import annotations

from pathlib import Path

from django.db import IntegrityError, transaction

from models_registry.downloads import targets
from models_registry.downloads.hub import name_by_file
from models_registry.downloads.planned import Plan, PlannedFile
from models_registry.errors import NotRegistered
from models_registry.models import Alias, Download, Preset, Source
from models_registry.naming import unique_name
from models_registry.registration import register_model
from models_registry.sources.discovery import FETCHED


def offer(plan: Plan, row: Download) -> tuple[str, str]:
    """(its name, what to say of it): the second is empty, or why it is not offered, or notes."""
    try:
        return _offered(plan, row)
    except IntegrityError:  # another process made one of the rows between two statements
        return _offered(plan, row)


@transaction.atomic
def _offered(plan: Plan, row: Download) -> tuple[str, str]:
    model, mmproj, draft = (plan.of_role(role) for role in ("model", "mmproj", "draft"))
    assert model is not None, "a plan has a model"
    name = _name(plan, row, model)
    try:
        preset = register_model(
            model.place,
            name,
            Source.CACHE if row.kind == Download.Kind.HUB else Source.DOWNLOAD,
            mmproj=mmproj.place if mmproj else "",
            draft=draft.place if draft else "",
        )
    except NotRegistered as error:
        return name, f"it is fetched, and not offered under its name: {error}"
    _name_repository(preset, row)
    return name, "; ".join(plan.notes)


def _name(plan: Plan, row: Download, model: PlannedFile) -> str:
    """Another file may have the name already, and be there still: one of the same repository, or
    one of another address that ends alike."""
    preset = Preset.objects.select_related("model_file").filter(name=plan.name).first()
    if preset is None or preset.model_path == model.place:
        return plan.name
    if row.kind == Download.Kind.URL and preset.source == Source.DOWNLOAD:
        return _number(plan.name, model.place)
    if row.kind != Download.Kind.HUB:
        return plan.name
    other = Path(preset.model_path)
    snapshot = Path(model.place.removesuffix(model.path))
    if not other.is_relative_to(snapshot) or not other.exists():
        return plan.name
    return name_by_file(plan.name.partition(":")[0], model.path)


def _number(name: str, path: str) -> str:
    """The name with the first number that is free, or that this file has already."""
    others = Preset.objects.exclude(model_file__path=path).values_list("name", flat=True)
    taken = {*others, *Alias.objects.values_list("name", flat=True)}
    return unique_name(name, taken)


def _name_repository(preset: Preset, row: Download) -> None:
    """`user/repo` alone finds its first model, as in llama.cpp."""
    if row.kind != Download.Kind.HUB:
        return
    repo = targets.hub_target(row.target).repo
    taken = Alias.objects.filter(name=repo).exists() or Preset.objects.filter(name=repo).exists()
    if not taken:
        alias = Alias(name=repo, preset=preset)
        alias._change_reason = FETCHED  # type: ignore[attr-defined]  # simple_history reads it
        alias.save()
