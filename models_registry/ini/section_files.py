"""The model file that a section of an INI file names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from models_registry.ini.presets import NO_MODEL, PresetSection, repository, where
from models_registry.models import ModelFile
from models_registry.naming import file_stem, quantisation
from models_registry.sources.parts import preferred


class NoModel(Exception):
    """The section's model is not there; the message says what to do."""


def model_path(section: PresetSection) -> str:
    """The absolute path that it names, or that its repository has in the Hugging Face cache; raises
    NoModel."""
    if section.model:
        return section.model
    if not section.hf_repo:
        raise NoModel(f"{where(section)} {NO_MODEL}")
    path = _in_cache(*repository(section.hf_repo), section.hf_file)
    if path is None:
        named = f"{section.hf_repo} {section.hf_file}".strip()
        raise NoModel(
            f"{where(section)} is not downloaded: {named}. Fetch it (POST /models, or Downloads in "
            "the admin); once it is there, rescan"
        )
    return path


def _in_cache(repo: str, tag: str, file: str) -> str | None:
    """As llama.cpp chooses: the file named, else that of the tag, else Q4_K_M or the next best."""
    inside = f"/models--{repo.replace('/', '--')}/snapshots/"
    rows = ModelFile.objects.filter(path__contains=inside, missing_since=None).order_by("path")
    paths = [path for path in rows.values_list("path", flat=True) if inside in path]
    if file:
        return next((path for path in paths if path.endswith(f"/{file}")), None)
    tags = [quantisation(file_stem(Path(path).name)) for path in paths]
    if tag:
        wanted = quantisation(f"-{tag}") or tag
        return next((path for path, each in zip(paths, tags, strict=True) if each == wanted), None)
    return paths[preferred(tags)] if paths else None


def companions(section: PresetSection) -> Mapping[str, str]:
    """The projector and the draft model that it names, by the fields of ModelFile."""
    named = {"mmproj": section.mmproj, "draft": section.draft}
    return {field: path for field, path in named.items() if path}
