"""A key's successor: it takes over all that the key is, and both work until the grace ends.

Whoever uses the key has so much time to put the new one in its place, and nobody is refused
meanwhile.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from models_registry.access import Asker
from models_registry.audit.watching import updated
from models_registry.errors import ManagementRefused
from proxy.editing import locked_key, refuse_admin_keys, refuse_the_past, told
from proxy.keys import give_secret
from proxy.models import ApiKey

USUAL_GRACE_HOURS = 24.0
MOST_GRACE_HOURS = 24.0 * 90


def rotate_key(
    public_id: str, asker: Asker, *, grace_hours: float, expires_at: datetime | None = None
) -> ApiKey:
    """The successor, with its text as `text`. The old key is refused after `grace_hours`, at once
    for 0, and never lives longer than it would have. Without `expires_at` the new one lives for as
    long as the old one was to live.

    Raises ManagementRefused, and ValidationError where the key could not be made any more.
    """
    with transaction.atomic():
        old = locked_key(public_id)
        refuse_admin_keys(old.scopes, asker)
        _refuse_what_has_ended(old)
        now = timezone.now()
        refuse_the_past(expires_at)
        new = _successor(old, expires_at or _as_long(old, now))
        text = give_secret(new)
        new.full_clean()
        told(new, asker)
        new.save()
        updated(old.limits.all(), key=new)  # they count for the whole line, and are shown with it
        ends = now + timedelta(hours=grace_hours)
        if old.expires_at is None or ends < old.expires_at:
            old.expires_at = ends
            told(old, asker)
            old.save(update_fields=["expires_at"])
    new.text = text
    return new


def _successor(old: ApiKey, expires_at: datetime | None) -> ApiKey:
    return ApiKey(
        team=old.team,
        user=old.user,
        name=old.name,
        scopes=old.scopes,
        aliases=old.aliases,
        allowed=old.allowed,
        line=old.line,
        replaces=old,
        expires_at=expires_at,
    )


def _as_long(old: ApiKey, now: datetime) -> datetime | None:
    return None if old.expires_at is None else now + (old.expires_at - old.created_at)


def _refuse_what_has_ended(old: ApiKey) -> None:
    if old.in_session:
        raise ManagementRefused("conflict", f"{old} has no text that another could replace.")
    if old.revoked_at is not None:
        raise ManagementRefused("conflict", f"{old} is revoked: make a new key.")
    successor = old.successors.filter(revoked_at=None).first()
    if successor is not None:
        raise ManagementRefused("conflict", f"{old} was rotated already: {successor} replaces it.")
