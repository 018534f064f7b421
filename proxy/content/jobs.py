"""The nightly job that lets go of prompts and answers."""

from __future__ import annotations

import logging

from models_registry.jobs import downloads, nightly
from proxy.content.keeping import drop_old_content

logger = logging.getLogger(__name__)


def _drop_old_content() -> None:
    logger.info("content: %d prompts and answers went", drop_old_content())


drop_content = nightly(downloads, _drop_old_content, name="drop_old_content", hour=3, minute=17)
