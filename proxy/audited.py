"""The tables of who may use the gateway, in the audit trail. Leads may read what concerns their
team."""

from __future__ import annotations

from typing import Any

from models_registry.audit.watching import watch
from models_registry.audit.writing import Changes
from proxy.models import ApiKey, Limit, Membership, Team


def connect() -> None:
    """Called once, when Django is ready."""
    watch(Team, "team", left_out=["created_at"], action=_of_team, team=lambda row: row.pk)
    watch(Membership, "member", left_out=["created_at"], team=lambda row: row.team_id)
    watch(
        ApiKey,
        "key",
        left_out=["created_at", "last_used_at"],
        secret=["digest"],
        action=_of_key,
        team=lambda row: row.team_id,
    )
    watch(Limit, "limit", left_out=["counter", "created_at"], team=_team_of_limit)


def _of_team(row: Any, changes: Changes, made: bool) -> str:
    if made or changes.keys() != {"keeps_content"}:
        return ""
    return "content on" if row.keeps_content else "content off"


def _of_key(row: Any, changes: Changes, made: bool) -> str:
    if made:
        return "rotated" if row.replaces_id is not None else ""
    return "revoked" if "revoked_at" in changes and row.revoked_at is not None else ""


def _team_of_limit(row: Any) -> int | None:
    if row.key_id is not None:
        team: int = row.key.team_id
        return team
    of_team: int | None = row.team_id
    return of_team
