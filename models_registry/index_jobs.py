"""The job that reads model files' headers, on a queue of its own: a download may take hours."""

from __future__ import annotations

import logging

from models_registry.indexing import index_files
from models_registry.jobs import QUEUE_ERRORS, headers, task

logger = logging.getLogger(__name__)


def _index() -> None:
    if headers.pending_count():
        return  # the one behind this sees all that this would
    done = index_files()
    logger.log(logging.WARNING if done.problem else logging.INFO, "index: %s", done)


index = task(headers, _index, name="index_files")


def order() -> None:
    """Put it on its queue. What cannot be ordered is made up for at the next start."""
    try:
        index()
    except QUEUE_ERRORS as error:
        logger.warning("the reading of headers could not be ordered: %s", error)


@headers.on_startup()  # type: ignore[untyped-decorator]
def index_at_start() -> None:
    """What changed while nothing ran, and what a killed job left."""
    order()
