"""Every night: who has not come by single sign-on for long leaves their teams, so that a key does
not outlive its owner's time in the house for ever: of that nobody tells us."""

from __future__ import annotations

import logging

from django.conf import settings

from models_registry.jobs import downloads, nightly
from proxy.account.belonging import leave_who_has_not_come_for

logger = logging.getLogger(__name__)


def _let_go_of_absent() -> None:
    days = 0 if settings.CORRAL_OIDC is None else settings.CORRAL_OIDC.days
    if not days:
        return
    reason = f"no single sign-on for {days} days"
    logger.info("%d people left their teams: %s", leave_who_has_not_come_for(days, reason), reason)


let_go_of_absent = nightly(downloads, _let_go_of_absent, name="let_go_of_absent", hour=4, minute=7)
