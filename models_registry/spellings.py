"""The ways in which one model's name is written: as Ollama's clients write it, and the hub's."""

from __future__ import annotations

from collections.abc import Iterator

from models_registry.models import Alias, Preset

_LATEST = ":latest"


def spellings(name: str) -> Iterator[str]:
    """As it is written first."""
    yield name
    shown = name.removeprefix("registry.ollama.ai/").removeprefix("library/")
    shown = shown.removesuffix(_LATEST)
    yield shown
    if ":" not in shown:
        yield f"{shown}{_LATEST}"
    shown = shown.removeprefix("hf.co/").removeprefix("huggingface.co/")
    repository, colon, tag = shown.partition(":")
    yield f"{repository}{colon}{tag.upper()}"  # the cache's are named so, whoever asked how


def preset_called(name: str) -> Preset | None:
    """By its own name or an alias, in any spelling."""
    for shown in spellings(name):
        found = Preset.objects.filter(name=shown).first()
        if found is None:
            alias = Alias.objects.select_related("preset").filter(name=shown).first()
            found = alias.preset if alias is not None else None
        if found is not None:
            return found
    return None
