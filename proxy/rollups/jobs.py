"""The proxy's nightly job: what is older than the settings keep goes."""

from __future__ import annotations

import logging

from django.conf import settings

from models_registry.jobs import downloads, nightly
from proxy.rollups.keeping import drop_hours, drop_records

logger = logging.getLogger(__name__)


def _drop_old_usage() -> None:
    days = settings.CORRAL_USAGE_DAYS
    logger.info("usage: %d requests older than %d days went", drop_records(days), days)
    days = settings.CORRAL_USAGE_HOUR_DAYS
    logger.info("usage: %d sums of hours older than %d days went", drop_hours(days), days)


drop_old_usage = nightly(downloads, _drop_old_usage, name="drop_old_usage", hour=3, minute=37)
