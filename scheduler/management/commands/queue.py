"""`manage.py queue [MODEL] [--json]`: which models are waited for; or who waits for one."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from django.core.management.base import CommandParser

from models_registry.downloads.shown import time_told
from models_registry.terminal import table
from scheduler.commanding import SchedulerCommand
from scheduler.describing import live_snapshot, waiters_of
from scheduler.protocol import WaitersPage
from scheduler.status_told import NONE, queue_lines


class Command(SchedulerCommand):
    help = "Says which models are waited for, and why; or who waits for one of them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", nargs="?", help="who waits for this one, the next first")
        parser.add_argument("--limit", type=int, default=50, choices=range(1, 201), metavar="N")
        parser.add_argument("--json", action="store_true", help="one JSON value")

    def ask(self, options: dict[str, Any]) -> None:
        if options["model"]:
            page = waiters_of(options["model"], limit=options["limit"], offset=0)
            told: Any = page
            lines = waiters_lines(page, self.screen.width)
        else:
            told = live_snapshot().queue
            lines = queue_lines(told, self.screen.width) or ["nobody waits"]
        if options["json"]:
            lines = [json.dumps(msgspec.to_builtins(told))]
        for line in lines:
            self.screen.line(line)


def waiters_lines(page: WaitersPage, width: int | None) -> list[str]:
    if not page.items:
        return [f"nobody waits for {page.preset}"]
    rows = [
        (
            str(waiter.position),
            waiter.request or f"({waiter.kind})",
            waiter.tenant or NONE,
            waiter.priority,
            time_told(waiter.waited),
            NONE if waiter.seconds is None else f"{time_told(waiter.seconds)} more",
        )
        for waiter in page.items
    ]
    heads = ("#", "REQUEST", "TEAM", "PRIORITY", "WAITED", "ABOUT")
    lines = table([heads, *rows], width=width, right=frozenset({0, 4, 5}))
    more = page.count - len(rows)
    return [*lines, f"and {more} more"] if more > 0 else lines
