"""The scheduler's jobs. What they do is plain functions elsewhere; here they get their queue."""

from __future__ import annotations

import logging

from django.conf import settings

from models_registry.jobs import downloads, nightly
from scheduler.models import prune_record

logger = logging.getLogger(__name__)


def _prune() -> None:
    removed = prune_record(settings.CORRAL_RECORD_DAYS)
    logger.info("the record: %d rows older than %d days went", removed, settings.CORRAL_RECORD_DAYS)


prune = nightly(downloads, _prune, name="prune_record", hour=3, minute=17)
