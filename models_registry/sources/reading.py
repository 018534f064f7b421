"""Which sources there are, and all of them read: the highest first."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

from models_registry.errors import EngineMissing, ImportRefused, ModelsFolderMissing
from models_registry.ini import preset_file
from models_registry.ini.presets import PresetsFile
from models_registry.models import Source
from models_registry.sources.found import Contents
from models_registry.sources.hf_cache import OFF, hub_cache, read_hf_cache
from models_registry.sources.models_dir import read_models_folder
from models_registry.sources.ollama_store import ollama_store, read_ollama_store

PRECEDENCE = (Source.MODELS_DIR, Source.CACHE, Source.OLLAMA)
"""Of one name the first counts. What people made and the presets file stand above all of them."""

CALLED = {
    Source.MODELS_DIR: "the models folder",
    Source.CACHE: "the Hugging Face cache",
    Source.OLLAMA: "Ollama's store",
    Source.DOWNLOAD: "the downloads",
}


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of the sources that are on, and the presets file."""

    models_dir: Path | None = None
    hf_cache: Path | None = None
    ollama: Path | None = None
    presets_file: Path | None = None

    def folders(self) -> list[tuple[Source, Path]]:
        """By precedence."""
        named = zip(PRECEDENCE, (self.models_dir, self.hf_cache, self.ollama), strict=True)
        return [(source, folder) for source, folder in named if folder is not None]


@dataclass(slots=True)
class Reading:
    """What the sources hold, by precedence; `vanished` are sentences on those that could not be
    listed, of which nothing is known. `presets` is what the presets file says; None without one, or
    with a `presets_fault`."""

    sources: list[tuple[Source, Contents]] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)
    presets: PresetsFile | None = None
    presets_fault: str = ""


_READERS: Mapping[Source, Callable[[Path], Contents]] = {
    Source.MODELS_DIR: read_models_folder,
    Source.CACHE: read_hf_cache,
    Source.OLLAMA: read_ollama_store,
}


def places_of(*, models_dir: str, hf_cache: str, ollama_models: str, models_preset: str) -> Places:
    """By the settings' texts. Nobody has to have a Hugging Face cache: unless its folder is named,
    it is left out while it does not exist."""
    return Places(
        models_dir=Path(models_dir).expanduser().absolute() if models_dir else None,
        hf_cache=_hf_cache(hf_cache),
        ollama=ollama_store(ollama_models, os.environ),
        presets_file=Path(models_preset).expanduser().absolute() if models_preset else None,
    )


def configured_places() -> Places:
    """Those of this process's settings."""
    return places_of(
        models_dir=settings.CORRAL_MODELS_DIR,
        hf_cache=settings.CORRAL_HF_CACHE,
        ollama_models=settings.CORRAL_OLLAMA_MODELS,
        models_preset=settings.CORRAL_MODELS_PRESET,
    )


def read_sources(places: Places) -> Reading:
    """Without the database: it may take as long as the disks do."""
    reading = Reading()
    for source, folder in places.folders():
        try:
            reading.sources.append((source, _READERS[source](folder)))
        except ModelsFolderMissing as error:
            reading.vanished.append(str(error))
    if places.presets_file is not None:
        try:
            reading.presets = preset_file.read(places.presets_file)
        except (ImportRefused, EngineMissing) as error:
            reading.presets_fault = str(error)
    return reading


def _hf_cache(setting: str) -> Path | None:
    if setting.lower() in OFF:
        return None
    folder = hub_cache(setting, os.environ)
    return folder if setting or folder.is_dir() else None
