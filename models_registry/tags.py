"""Tags: words by which presets are found. Stored as text with commas between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Q
from django.db.models.fields.json import KT

from models_registry.models import Preset
from models_registry.options.policy_keys import tag_words


def joined(tags: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(tags))


def tags_of(preset: Preset) -> tuple[str, ...]:
    """Its own; where it has none, those of the presets file."""
    return tag_words(preset.tags or preset.file_options.get("tags", ""))


def all_tags() -> list[str]:
    """Every tag that some preset has, sorted."""
    own, filed = _written()
    return sorted({tag for text in own | filed for tag in tag_words(text)}, key=str.casefold)


def tagged(*tags: str) -> Q:
    """The presets that have all of `tags`."""
    wanted = set(tags)
    own, filed = ([text for text in texts if wanted <= {*tag_words(text)}] for texts in _written())
    return Q(tags__in=own) | Q(tags="", file_options__tags__in=filed)


def _written() -> tuple[set[str], set[str]]:
    """The texts that presets have: their own, and those of the presets file."""
    rows: Any = Preset.objects.order_by().annotate(filed=KT("file_options__tags"))
    texts = set(rows.values_list("tags", "filed"))
    return {own for own, _ in texts if own}, {filed for own, filed in texts if filed and not own}
