"""`manage.py load MODEL [--no-wait]`: loads it, and shows how far it is until it is ready."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from models_registry import ports
from models_registry.downloads.shown import time_told
from models_registry.operating import interrupted_by, preset_meant
from models_registry.terminal import bar
from scheduler.commanding import SchedulerCommand
from scheduler.describing import live_snapshot
from scheduler.live_states import SnapshotState
from scheduler.load_waiter import LoadWaiter
from scheduler.status_told import holdup_told, state_told

LOOK_SECONDS = 0.25
BAR_COLUMNS = 30


class Command(SchedulerCommand):
    help = "Load a model, and wait until it is ready."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", help="its name or an alias")
        parser.add_argument("--no-wait", action="store_true", help="only ask for it")

    def ask(self, options: dict[str, Any]) -> None:
        name = preset_meant(options["model"]).name
        if ports.scheduler().load(name):
            self.screen.line(f"{name} is loaded")
            return
        if options["no_wait"]:
            self.screen.line(f"{name} is asked for; `manage.py status` says how far it is")
            return

        def leave() -> None:
            self.screen.line(
                f"{name} is loaded all the same; `manage.py unload {name}` ends that, and "
                "`manage.py status` says how far it is"
            )

        with interrupted_by(leave), LoadWaiter(settings.CORRAL_CONTROL_SOCKET, name) as waiter:
            while not waiter.is_loaded(LOOK_SECONDS):
                self.screen.progress(*progress_told(name, live_snapshot()))
        self.screen.line(f"{name} is loaded")


def progress_told(name: str, state: SnapshotState) -> tuple[str, str]:
    """(a line of how far it is, which step of it that is)."""
    for instance in state.instances:
        if instance.preset != name:
            continue
        step = f"{name} is {instance.state}"
        if instance.progress is None:
            return f"{name}: {state_told(instance)}", step
        since = time_told(instance.started_ago)
        return (
            f"{name}: {bar(instance.progress, BAR_COLUMNS)} {state_told(instance)}, {since}",
            step,
        )
    for entry in state.queue:
        if entry.preset == name:
            told = f"{name} waits: {holdup_told(entry)}"
            step = f"{name} waits: {entry.holdup or 'its turn'}"
            return f"{told}; for {time_told(entry.oldest)} so far", step
    return f"{name} is asked for", f"{name} is asked for"
