"""Every night: sessions that have ended go, and who has not come by single sign-on for long leaves
their teams. Nobody tells us that somebody has left the house, and their keys are not to outlive it.
"""

from __future__ import annotations

import logging

from django.conf import settings
from django.contrib.sessions.models import Session
from django.utils import timezone

from models_registry.jobs import downloads, nightly
from proxy.account.belonging import leave_who_has_not_come_for

logger = logging.getLogger(__name__)


def _let_go_of_absent() -> None:
    days = 0 if settings.CORRAL_OIDC is None else settings.CORRAL_OIDC.days
    if not days:
        return
    reason = f"no single sign-on for {days} days"
    logger.info("%d people left their teams: %s", leave_who_has_not_come_for(days, reason), reason)


def _drop_ended_sessions() -> None:
    gone, _ = Session.objects.filter(expire_date__lt=timezone.now()).delete()
    logger.info("%d sessions that had ended went", gone)


let_go_of_absent = nightly(downloads, _let_go_of_absent, name="let_go_of_absent", hour=4, minute=7)
drop_ended_sessions = nightly(
    downloads, _drop_ended_sessions, name="drop_ended_sessions", hour=4, minute=12
)
