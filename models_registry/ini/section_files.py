"""The model file that a section of an INI file names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from models_registry.ini.presets import NO_MODEL, PresetSection, repository, where
from models_registry.models import ModelFile
from models_registry.naming import file_stem, quantisation
from models_registry.sources.parts import preferred


class NoModel(Exception):
    """The section's model is not there; the message says what to do."""


class CachedFiles:
    """The model files in Hugging Face caches that are there, by their repository; read once, when
    the first section names one."""

    def __init__(self) -> None:
        self._paths: dict[str, list[str]] | None = None

    def of(self, repo: str) -> list[str]:
        if self._paths is None:
            self._paths = {}
            rows = ModelFile.objects.filter(path__contains=_CACHED, missing_since=None)
            for path in rows.order_by("path").values_list("path", flat=True):
                for folder in _REPOSITORY.findall(path):
                    self._paths.setdefault(folder, []).append(path)
        return self._paths.get(repo.replace("/", "--"), [])


_CACHED = "/models--"
_REPOSITORY = re.compile(r"/models--(.+?)(?=/snapshots/)")


def model_path(section: PresetSection, cached: CachedFiles) -> str:
    """The absolute path that it names, or that its repository has in the Hugging Face cache; raises
    NoModel."""
    if section.model:
        return section.model
    if not section.hf_repo:
        raise NoModel(f"{where(section)} {NO_MODEL}")
    repo, tag = repository(section.hf_repo)
    path = _chosen(cached.of(repo), tag, section.hf_file)
    if path is None:
        named = f"{section.hf_repo} {section.hf_file}".strip()
        raise NoModel(
            f"{where(section)} is not downloaded: {named}. Fetch it (POST /models, or Downloads in "
            "the admin); once it is there, rescan"
        )
    return path


def _chosen(paths: Sequence[str], tag: str, file: str) -> str | None:
    """As llama.cpp chooses: the file named, else that of the tag, else Q4_K_M or the next best."""
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
