"""Deletes the files of a model: only those inside the folders that Corral fetches into, and never
what a symbolic link leads to outside of them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Model, Q

from models_registry import ports
from models_registry.access import Asker
from models_registry.downloads.places import models_folder
from models_registry.errors import ManagementRefused
from models_registry.model_paths import files_state
from models_registry.models import Alias, Download, ModelFile, Preset, Source
from models_registry.sources.discovery import PASSED_ON
from models_registry.sources.hf_cache import hub_cache
from models_registry.sources.parts import PREFERRED

REMOVABLE = (Source.CACHE, Source.DOWNLOAD)
"""Sources whose files Corral may delete: nobody else keeps them."""


MAY_DELETE = "models_registry.delete_modelfile"


def remove_fetched(row: Download, asker: Asker, *, unload: bool, cascade: bool) -> None:
    """The model that a download brought. Raises ManagementRefused."""
    if not asker.may(MAY_DELETE):
        raise ManagementRefused(
            "permission_denied", f"{asker.label} lacks the permission {MAY_DELETE}."
        )
    paths = [file["link"] or file["at"] for file in row.files if file["role"] == "model"]
    found = ModelFile.objects.filter(path__in=paths[:1]).first()
    if found is None:
        raise ManagementRefused("not_found", f"{row.target} has no model that is registered.")
    remove(found, asker, unload=unload, cascade=cascade, name=row.name)


def remove(
    model_file: ModelFile, asker: Asker, *, unload: bool, cascade: bool, name: str = ""
) -> None:
    """Its presets go first, so that nothing loads it any more; what runs ends its answers. Then its
    files go. Where it was fetched by other names beside `name`, that name alone goes.

    Raises ManagementRefused, and then nothing has changed."""
    if name and (preset := _one_of_several(model_file, name)):
        with transaction.atomic():
            _check_presets([preset], unload=unload, cascade=cascade)
            _delete_row(preset, asker)
        return
    roots = _roots()
    files = _files_of(model_file)
    for file in files:
        if not any(_inside(file, root) for root in roots):
            raise ManagementRefused(
                "conflict",
                f"{file} does not lie in a folder that Corral fetches into: it is not deleted.",
            )
        _check_writable(file, roots)
    with transaction.atomic():
        presets = list(Preset.objects.select_for_update().filter(model_file=model_file))
        _check_presets(presets, unload=unload, cascade=cascade)
        shared = _still_needed(model_file, files)
        _pass_on_short_names(presets)
        for row in (*presets, model_file):
            _delete_row(row, asker)
    for file in files:
        if file not in shared:
            _delete(file, roots)


def _one_of_several(model_file: ModelFile, name: str) -> Preset | None:
    """The preset `name`, when others were fetched that are the same file: two tags of Ollama's."""
    fetched = Preset.objects.filter(model_file=model_file, source__in=REMOVABLE)
    found = fetched.filter(name=name).first()
    return found if found is not None and fetched.exclude(pk=found.pk).exists() else None


def _delete_row(row: Model, asker: Asker) -> None:
    row._change_reason = asker.label  # type: ignore[attr-defined]  # simple_history reads it
    row.delete()


def _pass_on_short_names(presets: list[Preset]) -> None:
    """`user/repo` goes to a quantisation that is left, at once: clients may know no other name."""
    for alias in Alias.objects.filter(preset__in=presets).select_related("preset"):
        of_repository = alias.preset.source == Source.CACHE and alias.name == _repo_of(alias.preset)
        if of_repository and (heir := _quantisation_left(alias.name, presets)):
            alias.preset = heir
            alias._change_reason = PASSED_ON  # type: ignore[attr-defined]
            alias.save()


def _quantisation_left(repo: str, going: list[Preset]) -> Preset | None:
    """The one that a rescan would choose, of those whose files are there."""
    there = Preset.objects.filter(
        source=Source.CACHE, name__startswith=f"{repo}:", model_file__missing_since=None
    ).exclude(pk__in=[preset.pk for preset in going])
    left = {preset.name.rpartition(":")[2]: preset for preset in there.order_by("-name")}
    first = next(iter(reversed(left.values())), None)
    return next((left[tag] for tag in PREFERRED if tag in left), first)


def _repo_of(preset: Preset) -> str:
    return preset.name.rpartition(":")[0]


def _check_writable(file: Path, roots: list[Path]) -> None:
    """Raises ManagementRefused where it could not be deleted: a cache may be mounted to be read
    only, or belong to another account."""
    folders = [file.parent]
    if file.is_symlink() and file.exists() and any(_inside(file.resolve(), root) for root in roots):
        folders.append(file.resolve().parent)
    for folder in folders:
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ManagementRefused(
                "conflict",
                f"{file} cannot be deleted: Corral's account may not write in {folder}. Give it "
                "the right, or delete the file by hand.",
            )


def _check_presets(presets: list[Preset], *, unload: bool, cascade: bool) -> None:
    made = [preset.name for preset in presets if preset.source not in REMOVABLE]
    if made and not cascade:
        raise ManagementRefused(
            "conflict",
            f"Presets that people made run it: {', '.join(made)}. Delete them first, or ask with "
            "cascade=true to delete them as well.",
        )
    going = [preset.pk for preset in presets]
    heirs = Preset.objects.filter(base__in=going).exclude(pk__in=going)
    if names := list(heirs.values_list("name", flat=True)):
        raise ManagementRefused(
            "conflict", f"It is the base of {', '.join(names)}: give them another one first."
        )
    statuses = _statuses()
    live = [p.name for p in presets if p.name in statuses and statuses[p.name] != "unloaded"]
    if live and not unload:
        raise ManagementRefused(
            "conflict",
            f"It is in use by {', '.join(live)}: unload first, or ask with unload=true.",
        )


def _statuses() -> dict[str, str]:
    try:
        return {name: each.state for name, each in ports.scheduler().statuses().items()}
    except (ports.SchedulerUnavailable, ports.SchedulerRefused) as error:
        raise ManagementRefused(
            "scheduler_unavailable", f"Whether it runs is not known: {error}"
        ) from error


def _files_of(model_file: ModelFile) -> list[Path]:
    """Shards, projector and draft that are there."""
    shards = [Path(path) for path, _, _ in files_state(model_file.path).stamp]
    beside = [Path(path) for path in (model_file.mmproj, model_file.draft) if path]
    return [file for file in (*shards, *beside) if os.path.lexists(file)]


def _still_needed(model_file: ModelFile, files: Iterable[Path]) -> set[Path]:
    """Companions that another model has as well."""
    others = ModelFile.objects.exclude(pk=model_file.pk)

    def is_needed(path: str) -> bool:
        return others.filter(Q(path=path) | Q(mmproj=path) | Q(draft=path)).exists()

    return {file for file in files if is_needed(os.fspath(file))}


def _roots() -> list[Path]:
    cache = hub_cache(settings.CORRAL_HF_CACHE, os.environ)
    return [Path(os.path.realpath(folder)) for folder in (cache, models_folder())]


def _inside(file: Path, root: Path) -> bool:
    """By where its folder really is: a folder that is a link may lead anywhere."""
    return Path(os.path.realpath(file.parent)).is_relative_to(root)


def _delete(file: Path, roots: list[Path]) -> None:
    """The file, or the link and then the blob that it led to, when that lies in the same repository
    and no other snapshot leads to it."""
    blob = Path(os.path.realpath(file)) if file.is_symlink() else None
    with contextlib.suppress(FileNotFoundError):
        file.unlink()
    repo = _repository(file, roots)
    if repo is None:
        with contextlib.suppress(OSError):  # not empty
            if file.parent.parent.name == "url":
                file.parent.rmdir()
        return
    if blob is not None and blob.parent == repo / "blobs" and not _is_linked(blob, repo):
        with contextlib.suppress(FileNotFoundError):
            blob.unlink()
    _tidy(Path(os.path.realpath(file.parent)), repo)


def _repository(file: Path, roots: list[Path]) -> Path | None:
    """models--user--repo, of a file below its snapshots; None elsewhere."""
    folder = Path(os.path.realpath(file.parent))
    for root in roots:
        if folder.is_relative_to(root):
            parts = folder.relative_to(root).parts
            if len(parts) >= 3 and parts[0].startswith("models--") and parts[1] == "snapshots":
                return root / parts[0]
    return None


def _is_linked(blob: Path, repo: Path) -> bool:
    for folder, _, names in os.walk(repo / "snapshots"):
        for name in names:
            path = Path(folder, name)
            if path.is_symlink() and Path(os.path.realpath(path)) == blob:
                return True
    return False


def _tidy(folder: Path, repo: Path) -> None:
    """Empty folders go, up to the repository; of an empty repository its refs as well."""
    with contextlib.suppress(OSError):  # not empty: that is where it ends
        while folder != repo:
            folder.rmdir()
            folder = folder.parent
        for ref in (repo / "refs").rglob("*"):
            if ref.is_file() and not ref.is_symlink():
                ref.unlink()
        for empty in (repo / "refs", repo / "blobs", repo):
            empty.rmdir()
