"""Ending people's sessions, wherever they are logged in."""

from __future__ import annotations

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.utils import timezone


def end_sessions_of(user: User, *, but: str | None = None) -> int:
    """All of them, but for the one with the key `but`; how many there were. A session tells whose
    it is only when it is read, so all are: a team has few."""
    mine = str(user.pk)
    rows = Session.objects.filter(expire_date__gte=timezone.now()).exclude(session_key=but or "")
    ended = [row.pk for row in rows.iterator() if row.get_decoded().get(SESSION_KEY) == mine]
    Session.objects.filter(pk__in=ended).delete()
    return len(ended)
