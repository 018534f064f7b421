"""The scheduler's jobs. What they do is plain functions elsewhere; here they get their queue."""

from __future__ import annotations

import logging

from django.conf import settings

from models_registry import measurements
from models_registry.engine_path import llama_server
from models_registry.jobs import downloads, measures, nightly, task, with_fresh_connections
from models_registry.launch import launch_specs
from scheduler.models import prune_record
from scheduler.runs import prune_logs

logger = logging.getLogger(__name__)


def _prune() -> None:
    days = settings.CORRAL_RECORD_DAYS
    removed = prune_record(days)
    logger.info("the record: %d rows older than %d days went", removed, days)
    unused = measurements.prune(days, (spec.memory_fingerprint for spec in launch_specs()))
    logger.info("%d measurements that no preset had for %d days went", unused, days)
    gone = prune_logs(settings.CORRAL_LOG_FOLDER, days)
    logger.info("the logs of %d runs went", gone)


def _measure(fingerprint: str) -> None:
    # Imported by the process that works, not by every page that orders a measurement.
    from scheduler.measuring.job import measure_row
    from scheduler.run_folder import make_run_folder
    from scheduler.runtime.engines.llama_server import LlamaServer

    measure_row(
        fingerprint,
        engine=LlamaServer(llama_server),
        run_folder=make_run_folder(settings.CORRAL_VAR),
        socket=settings.CORRAL_CONTROL_SOCKET,
    )


prune = nightly(downloads, _prune, name="prune_record", hour=3, minute=17)
measure = task(measures, _measure, name="measure_preset")


@measures.on_startup()  # type: ignore[untyped-decorator]
@with_fresh_connections
def take_up_interrupted() -> None:
    """What a killed consumer had begun is put on the queue again, before anything else is done."""
    for fingerprint in measurements.interrupted():
        logger.info("a measurement was interrupted and is begun again: %s", fingerprint)
        measure(fingerprint)
