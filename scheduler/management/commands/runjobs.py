"""`manage.py runjobs`: a consumer for each job queue, in one process, until SIGTERM or SIGINT."""

from __future__ import annotations

import logging
import signal
import threading
from importlib import import_module
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.utils.module_loading import import_string

from models_registry.jobs import Consumer, downloads, headers, measures
from models_registry.watching import watch_sources
from scheduler.calling import call
from scheduler.heartbeat import BEAT_SECONDS, Heartbeat
from scheduler.protocol import Ping, Refused
from scheduler.run_folder import control_socket

logger = logging.getLogger(__name__)

LONGEST_DELAY_SECONDS = 0.1
"""Between two looks at an empty queue: a measurement waits behind a request."""

SHUTDOWN_SECONDS = 3
"""A job that runs longer is abandoned: jobs are safe to run again."""


class QuietConsumer(Consumer):  # type: ignore[misc]
    """Leaves signals alone: two consumers share this process."""

    def _set_signal_handlers(self) -> None:
        pass


def consumers() -> list[QuietConsumer]:
    """One more worker than downloads may run at once: no rescan waits for a download."""
    for module in settings.CORRAL_JOB_MODULES:
        import_module(module)
    return [
        QuietConsumer(
            queue,
            workers=workers,
            initial_delay=LONGEST_DELAY_SECONDS / 2,
            max_delay=LONGEST_DELAY_SECONDS,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        for queue, workers in (
            (downloads, settings.CORRAL_DOWNLOADS + 1),
            (measures, 1),
            (headers, 1),
        )
    ]


def side_threads(stop: threading.Event) -> list[threading.Thread]:
    """What runs beside the queues until `stop` is set."""
    running = []
    for name in settings.CORRAL_JOB_THREADS:
        work = import_string(name)
        thread = threading.Thread(target=work, args=(stop,), name=work.__name__, daemon=True)
        thread.start()
        running.append(thread)
    return running


def sources_watch(every_seconds: float, stop: threading.Event) -> threading.Thread | None:
    """A thread that looks at the sources of models until `stop` is set; None where there is nothing
    to look at: for 0 seconds, without a presets file. It is not waited for: what it does may be
    done again."""
    if every_seconds <= 0 and not settings.CORRAL_MODELS_PRESET:
        return None
    watch = threading.Thread(
        target=watch_sources, args=(every_seconds, stop), name="sources", daemon=True
    )
    watch.start()
    return watch


def _show_life() -> None:
    """To the scheduler, whom others ask how we are. It may be away for a moment."""
    try:
        call(control_socket(settings.CORRAL_VAR), Ping(1, process="jobs"), timeout=1.0)
    except Refused as refused:
        logger.debug("no sign of life was taken: %s", refused)


class Command(BaseCommand):
    help = "Runs the background jobs: downloads, measures and headers, each in a queue of its own."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--heartbeat", type=int, help="an inherited pipe, to show life on")

    def handle(self, *args: Any, heartbeat: int | None, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        running = consumers()
        for consumer in running:
            consumer.start()
        self.stdout.write("jobs run: downloads, measures, headers")
        self.stdout.flush()
        beside = side_threads(stop)
        looking = sources_watch(settings.CORRAL_RESCAN_EVERY, stop)
        watched = beside if looking is None else [*beside, looking]
        try:
            self._watch(running, watched, stop, Heartbeat(heartbeat))
        finally:
            stop.set()
            for consumer in running:
                consumer.stop_flag.set()
            for thread in beside:
                thread.join(SHUTDOWN_SECONDS)
            for consumer in running:
                consumer.stop(graceful=True)

    def _watch(
        self,
        running: list[QuietConsumer],
        beside: list[threading.Thread],
        stop: threading.Event,
        heartbeat: Heartbeat,
    ) -> None:
        """Until stopped. Ends the process when one of its threads has died: half a process is
        worse than none, and `serve` starts a whole one."""
        heartbeat.beat()
        _show_life()
        while not stop.wait(BEAT_SECONDS):
            heartbeat.beat()
            _show_life()
            for consumer in running:
                threads = [consumer.scheduler, *(thread for _, thread in consumer.worker_threads)]
                if not all(thread.is_alive() for thread in threads):
                    raise SystemExit("a worker of the jobs died; the log above says why")
            for thread in beside:
                if not thread.is_alive() and not stop.is_set():
                    raise SystemExit(f"the thread {thread.name} died; the log above says why")
