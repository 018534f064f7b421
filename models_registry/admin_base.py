"""What the registry's admin pages share."""

from __future__ import annotations

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from models_registry.model_paths import files_state
from models_registry.models import ModelFile

NOTHING = "-"


def link(model: str, pk: int, text: str) -> SafeString:
    url = reverse(f"admin:models_registry_{model}_change", args=[pk])
    return format_html('<a href="{}">{}</a>', url, text)


def file_link(model_file: ModelFile) -> SafeString:
    """With a badge when the file is not where it was."""
    linked = link("modelfile", model_file.pk, model_file.path)
    if not file_problem(model_file):
        return linked
    return format_html('{} <span class="corral-badge bad">file missing</span>', linked)


def file_problem(model_file: ModelFile) -> str:
    """As the disk is now, not as the last rescan saw it. Empty when all is there."""
    return files_state(model_file.path, model_file.mmproj).problem
