"""How a key stands, in a word, for lists that people look at."""

from __future__ import annotations

from django.utils import timezone

from proxy.members import memberships_of
from proxy.models import ApiKey

IN_USE = "in use"
REPLACED = "replaced"
"""It works until its grace ends."""


def state_of(key: ApiKey) -> str:
    """Of a key whose `successors` and whose owner's `memberships` are best fetched with it."""
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is not None and key.expires_at <= timezone.now():
        return "expired"
    if key.user is not None:
        if not key.user.is_active:
            return "owner inactive"
        if key.team_id not in {each.team_id for each in memberships_of(key.user)}:
            return "owner left"
    replaced = any(each.revoked_at is None for each in key.successors.all())
    return REPLACED if replaced else IN_USE
