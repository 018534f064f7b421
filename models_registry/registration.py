"""Put one model into the registry by its path: for `serve -m` and for the demo."""

from __future__ import annotations

from pathlib import Path

from django.db import transaction

from models_registry.errors import NotRegistered
from models_registry.model_paths import files_state
from models_registry.models import Alias, ModelFile, Preset, Source
from models_registry.naming import file_stem, name_problem, valid_name
from models_registry.validation import file_problem


def register_model(
    path: str | Path,
    name: str = "",
    source: str = Source.COMMAND_LINE,
    *,
    mmproj: str = "",
    draft: str = "",
) -> Preset:
    """The preset `name` (the file's name when empty) for the GGUF at `path`, made if need be. A row
    of the same source gets the companions that are named.

    Called again it changes nothing, except that a preset of the same source is turned to the file
    named now. Raises NotRegistered when the file cannot be read or the name belongs to another.
    """
    file = Path(path).expanduser().absolute()
    if problem := file_problem(str(file)):
        raise NotRegistered(f"{file}: {problem}")
    name = name or valid_name(file_stem(file.name))
    if problem := name_problem(name):
        raise NotRegistered(f"{name!r} cannot be a model's name: {problem}")
    with transaction.atomic():
        model_file = model_file_at(str(file), source)
        if model_file.source == source:
            _complete(model_file, mmproj, draft)
        return _preset(name, model_file, source)


def model_file_at(path: str, source: str) -> ModelFile:
    """The row of `path`, made if need be; one that is there keeps its source."""
    model_file, _ = ModelFile.objects.get_or_create(
        path=path, defaults={"source": source, "size": files_state(path).size}
    )
    return model_file


def _complete(model_file: ModelFile, mmproj: str, draft: str) -> None:
    """As it is on disk now, with the companions that came with it; others stay."""
    before = (model_file.mmproj, model_file.draft, model_file.size, model_file.missing_since)
    model_file.mmproj = mmproj or model_file.mmproj
    model_file.draft = draft or model_file.draft
    model_file.size = files_state(model_file.path).size
    model_file.missing_since = None
    if before != (model_file.mmproj, model_file.draft, model_file.size, None):
        model_file.save()


def _preset(name: str, model_file: ModelFile, source: str) -> Preset:
    if Alias.objects.filter(name=name).exists():
        raise NotRegistered(f"{name!r} is an alias of another model: choose another name")
    preset = Preset.objects.filter(name=name).first()
    if preset is None:
        return Preset.objects.create(name=name, model_file=model_file, source=source)
    if preset.model_file_id == model_file.pk:
        return preset
    if preset.source != source:
        raise NotRegistered(
            f"a preset named {name!r} runs another file ({preset.model_path or 'none'}): "
            "choose another name, or change that preset"
        )
    preset.model_file = model_file
    preset.save()
    return preset
