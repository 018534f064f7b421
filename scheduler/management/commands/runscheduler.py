"""`manage.py runscheduler`: the process that owns the children."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from scheduler.collecting import collect_seldom
from scheduler.conf import SchedulerConfig, scheduler_config
from scheduler.run_folder import (
    UnsafeRunFolder,
    control_socket,
    make_run_folder,
    remove_if_elsewhere,
)
from scheduler.runtime.load_times import tell_load_seconds
from scheduler.runtime.lock import AlreadyRunning, only_scheduler
from scheduler.runtime.measures import Measures
from scheduler.runtime.recorder import Recorder
from scheduler.runtime.service import SchedulerService

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Run the scheduler: it starts and stops the models and answers on the control socket."

    def handle(self, *args: Any, **options: Any) -> None:
        config = scheduler_config()
        _require_migrated_tables()
        try:
            with only_scheduler(config.var):
                folder = make_run_folder(config.var)
                _run(replace(config, run_folder=folder, control_socket=control_socket(config.var)))
                remove_if_elsewhere(folder, config.var)
        except (AlreadyRunning, UnsafeRunFolder) as refusal:
            raise CommandError(str(refusal)) from None


def _require_migrated_tables() -> None:
    """Raises CommandError. A database that is away is no reason to stop: it is asked again."""
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as failure:
        logger.warning("the database does not answer yet: %s", failure)
        return
    finally:
        connection.close()
    if missing:
        raise CommandError(
            f"{len(missing)} migrations have not been run on the database: "
            "run `manage.py migrate` first (`manage.py serve` does it by itself)"
        )


def _run(config: SchedulerConfig) -> None:
    recorder = Recorder()
    recorder.start()
    collect_seldom()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            service = SchedulerService(
                config, record=recorder, measures=Measures(), load_times=tell_load_seconds
            )
            runner.run(service.run())
    finally:
        recorder.stop()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed; None is asyncio's own."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop
