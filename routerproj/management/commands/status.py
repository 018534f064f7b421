"""`manage.py status [--watch [SECONDS]] [--json]`: what runs now. Exit code 1 when nothing
answers."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import CommandParser

from models_registry.operating import NO_SCHEDULER, REFUSED, OperatorCommand
from models_registry.terminal import clipped
from routerproj.serve.probes import web_answers
from routerproj.serve.state_lock import served_url
from scheduler.describing import live_devices, live_snapshot
from scheduler.protocol import DeviceState, Refused, SnapshotState
from scheduler.status_told import status_lines

ANSWER_SECONDS = 5.0
WATCH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Found:
    """`url` is empty when no `serve` runs; `live` is None when the scheduler does not answer."""

    url: str
    web: bool
    live: SnapshotState | None
    devices: list[DeviceState]

    @property
    def nothing(self) -> bool:
        return not self.web and self.live is None


class Command(OperatorCommand):
    help = "Says what runs on this state folder: the web address, devices, models, the queue."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--watch",
            type=_pause,
            nargs="?",
            const=WATCH_SECONDS,
            metavar="SECONDS",
            help=f"again every so many seconds, until Ctrl-C; unless told {WATCH_SECONDS:.0f}",
        )
        parser.add_argument(
            "--json", action="store_true", help="one JSON object, a line each with --watch"
        )

    def work(self, options: dict[str, Any]) -> None:
        if options["watch"] is not None:
            self._watch(options["watch"], in_json=options["json"])
            return
        found = look()
        if options["json"]:
            self.screen.line(as_json(found))
        else:
            for line in lines(found, self.screen.width):
                self.screen.line(line)
        if found.live is None and not options["json"]:
            self.stderr.write(NO_SCHEDULER, str)
        if found.nothing:
            raise SystemExit(REFUSED)

    def _watch(self, pause_seconds: float, *, in_json: bool) -> None:
        """Ctrl-C is its end, and no failure."""
        try:
            while True:
                found = look()
                if in_json:
                    self.screen.line(as_json(found))
                else:
                    self.screen.page(lines(found, self.screen.width))
                time.sleep(pause_seconds)
        except KeyboardInterrupt:
            return


def look() -> Found:
    url = served_url(settings.CORRAL_VAR)
    web = bool(url) and asyncio.run(web_answers(url, ANSWER_SECONDS))
    try:
        return Found(url, web, live_snapshot(), live_devices())
    except Refused:
        return Found(url, web, None, [])


def lines(found: Found, width: int | None = None) -> list[str]:
    serve = "does not run"
    if found.url:
        serve = f"{found.url} {'answers' if found.web else 'does not answer'}"
    told = [f"state     {settings.CORRAL_VAR}", f"serve     {serve}"]
    if width is not None:
        told = [clipped(line, width) for line in told]
    if found.live is None:
        return [*told, "scheduler does not answer"]
    return [*told, *status_lines(found.live, found.devices, width)]


def as_json(found: Found) -> str:
    """Fields may be added; none is renamed or left out (docs/command-line.md)."""
    told = {
        "state": str(settings.CORRAL_VAR),
        "url": found.url,
        "answers": found.web,
        "scheduler": msgspec.to_builtins(found.live),
        "devices": msgspec.to_builtins(found.devices),
    }
    return json.dumps(told)


def _pause(text: str) -> float:
    """Raises ValueError, of which argparse tells."""
    seconds = float(text)
    if not 0.1 <= seconds <= 3600:
        raise ValueError(text)
    return seconds
