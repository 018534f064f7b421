"""The registry's tables that the trail is about, and Django's accounts."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group as PermissionGroup
from django.contrib.auth.models import User

from models_registry.audit.watching import watch
from models_registry.audit.writing import Changes
from models_registry.models import (
    Alias,
    Download,
    GlobalPreset,
    Group,
    ModelFile,
    Preset,
    Profile,
)

_OF_ITS_JOB = (
    "commit", "name", "files", "bytes_done", "bytes_total", "bytes_per_second", "error", "attempts",
    "asked_by", "created_at", "started_at", "seen_at", "ended_at",
)  # fmt: skip
"""What a download's job writes of it."""

State = Download.State


def connect() -> None:
    """Called once, when Django is ready."""
    watch(ModelFile, "model file")
    watch(Preset, "preset", left_out=["version"], action=_of_preset)
    watch(Alias, "alias")
    watch(Group, "group")
    watch(Profile, "profile", sets=["presets"], action=_of_profile)
    watch(GlobalPreset, "global preset")
    watch(Download, "download", left_out=_OF_ITS_JOB, action=_of_download)
    watch(
        User,
        "user",
        left_out=["last_login", "date_joined"],
        secret=["password"],
        sets=["groups", "user_permissions"],
        action=_of_user,
    )
    watch(PermissionGroup, "permission group", sets=["permissions"])


def _of_preset(row: Any, changes: Changes, made: bool) -> str:
    if made or changes.keys() != {"pinned"}:
        return ""
    return "pinned" if row.pinned else "unpinned"


def _of_profile(row: Any, changes: Changes, made: bool) -> str:
    if made or changes.keys() != {"active"}:
        return ""
    return "switched on" if row.active else "switched off"


def _of_user(row: Any, changes: Changes, made: bool) -> str:
    return "password set" if not made and changes.keys() == {"password"} else ""


def _of_download(row: Any, changes: Changes, made: bool) -> str:
    if made:
        return "downloaded"
    if not changes.keys() & {"state", "wanted"}:
        return ""
    if row.wanted in (State.CANCELLED, State.PAUSED):
        return str(row.wanted)
    return "resumed"
