"""How a key stands, in a word, for lists that people look at; which is English here."""

from __future__ import annotations

from django.utils import timezone
from django.utils.translation import gettext_noop

from proxy.members import memberships_of
from proxy.models import ApiKey

IN_USE = gettext_noop("in use")
REPLACED = gettext_noop("replaced")
"""It works until its grace ends."""


def state_of(key: ApiKey) -> str:
    """Of a key whose `successors` and whose owner's `memberships` are best fetched with it."""
    if key.revoked_at is not None:
        return gettext_noop("revoked")
    if key.expires_at is not None and key.expires_at <= timezone.now():
        return gettext_noop("expired")
    if key.user is not None:
        if not key.user.is_active:
            return gettext_noop("owner inactive")
        if key.team_id not in {each.team_id for each in memberships_of(key.user)}:
            return gettext_noop("owner left")
    replaced = any(each.revoked_at is None for each in key.successors.all())
    return REPLACED if replaced else IN_USE
