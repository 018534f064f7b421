"""Pinning from a terminal: the preset's own word, and what counts then."""

from __future__ import annotations

from models_registry import editing
from models_registry.launch import effective_policy_of
from models_registry.operating import operator, preset_meant


def pinned(name: str, wanted: bool) -> str:
    """What to tell. Raises Declined, and ValidationError for a preset that cannot be saved."""
    preset = preset_meant(name)
    was = preset.pinned
    preset = editing.change_preset(preset.name, {"pinned": wanted}, operator())
    word = "pinned" if wanted else "not pinned"
    policy = effective_policy_of(preset)
    if policy.pinned != wanted:
        where = policy.said_by["pinned"].where
        return f"{preset.name} stays {'pinned' if policy.pinned else 'unpinned'}: {where} says so"
    if was == wanted:
        return f"{preset.name} was {word} already"
    return f"{preset.name} is {word}" if wanted else f"{preset.name} is pinned no more"
