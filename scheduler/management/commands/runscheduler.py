"""`manage.py runscheduler`: the process that owns the children."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from models_registry.engine_path import llama_server
from models_registry.tables import missing_migrations
from scheduler.collecting import collect_seldom
from scheduler.conf import SchedulerConfig, scheduler_config
from scheduler.limits import fixed_limits
from scheduler.run_folder import (
    UnsafeRunFolder,
    control_socket,
    make_run_folder,
    remove_if_elsewhere,
)
from scheduler.runtime.devices.readings import Devices
from scheduler.runtime.devices.rpc_names import machine_list
from scheduler.runtime.engines.llama_server import inherited_environment
from scheduler.runtime.load_times import tell_load_seconds
from scheduler.runtime.lock import AlreadyRunning, only_scheduler
from scheduler.runtime.measures import Measures
from scheduler.runtime.recorder import Recorder
from scheduler.runtime.service import SchedulerService
from scheduler.telemetry import TRACES, telemetry_of

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Run the scheduler: it starts and stops the models and answers on the control socket."
    requires_system_checks = ("corral",)  # the rest is of pages, and takes a second to look at

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
        missing = missing_migrations()
    except DatabaseError as failure:
        logger.warning("the database does not answer yet: %s", failure)
        return
    finally:
        connection.close()
    if missing:
        raise CommandError(
            f"{missing} migrations have not been run on the database: "
            "run `manage.py migrate` first (`manage.py serve` does it by itself)"
        )


def _run(config: SchedulerConfig) -> None:
    recorder = Recorder()
    recorder.start()
    telemetry = telemetry_of("scheduler", settings.CORRAL_TELEMETRY & {TRACES})
    collect_seldom()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            service = SchedulerService(
                config,
                record=recorder,
                measures=Measures(),
                devices=_devices(),
                load_times=tell_load_seconds,
                telemetry=telemetry,
            )
            runner.run(service.run())
    finally:
        recorder.stop()
        if telemetry is not None:
            telemetry.close()


def _devices() -> Devices:
    """As the children see them."""
    environment = inherited_environment(os.environ)
    rpc = machine_list(settings.CORRAL_COMMAND_LINE, os.environ)
    return Devices(llama_server, environment, limits=fixed_limits(), rpc=rpc)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed; None is asyncio's own."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop
