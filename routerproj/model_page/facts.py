"""What a model is: its file, what that says of itself, and who else runs it."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from models_registry.admin.base import file_problem, mebibytes
from models_registry.metadata_shown import metadata_of, metadata_shown
from models_registry.models import ModelFile, Preset
from proxy.ollama.models import THINKS

MOST_OTHERS = 50


def facts_of(preset: Preset) -> dict[str, Any]:
    """For the template."""
    row = preset.model_file
    header = metadata_of(row)
    template = header.chat_template if header is not None else ""
    return {
        "header": metadata_shown(row),
        "chat_template": template,
        "template_caps": _template_caps(template),
        "file": row,
        "file_size": mebibytes(row.size) if row is not None else "",
        "file_problem": file_problem(row),
        "others": _others(row, preset),
        "aliases": [alias.name for alias in preset.aliases.order_by("name")],
    }


def _template_caps(template: str) -> list[tuple[str, bool]]:
    """What its chat template has words for; empty without one."""
    if not template:
        return []
    return [
        (_("system prompt"), "system" in template),
        (_("tools"), "tools" in template),
        (_("reasoning"), any(mark in template for mark in THINKS)),
        (_("images"), "image" in template),
    ]


def _others(row: ModelFile | None, preset: Preset) -> list[Preset]:
    if row is None:
        return []
    return list(row.presets.exclude(pk=preset.pk).order_by("name")[:MOST_OTHERS])
