"""`manage.py runscheduler`: the process that owns the children."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.collecting import collect_seldom
from scheduler.conf import SchedulerConfig, scheduler_config
from scheduler.run_folder import UnsafeRunFolder, make_run_folder
from scheduler.runtime.lock import AlreadyRunning, only_scheduler
from scheduler.runtime.measures import Measures
from scheduler.runtime.recorder import Recorder
from scheduler.runtime.service import SchedulerService


class Command(BaseCommand):
    help = "Run the scheduler: it starts and stops the models and answers on the control socket."

    def handle(self, *args: Any, **options: Any) -> None:
        config = scheduler_config()
        try:
            make_run_folder(config.var)
            with only_scheduler(config.run_folder):
                _run(config)
        except (AlreadyRunning, UnsafeRunFolder) as refusal:
            raise CommandError(str(refusal)) from None


def _run(config: SchedulerConfig) -> None:
    recorder = Recorder()
    recorder.start()
    collect_seldom()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            service = SchedulerService(config, record=recorder, measures=Measures())
            runner.run(service.run())
    finally:
        recorder.stop()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed; None is asyncio's own."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop
