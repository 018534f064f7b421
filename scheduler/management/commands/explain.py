"""`manage.py explain REQUEST [--json]`: where a request stands, and why."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from django.core.management.base import CommandParser

from models_registry.log_redaction import harmless_text
from scheduler.commanding import SchedulerCommand
from scheduler.describing import explained


class Command(SchedulerCommand):
    help = "Says where a request stands, and why."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("request", help="its x-request-id, as its client was told it")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def ask(self, options: dict[str, Any]) -> None:
        told = explained(options["request"])
        if options["json"]:
            self.screen.line(json.dumps(msgspec.to_builtins(told)))
            return
        who = f"{told.request} for {told.preset}, of {told.tenant or 'nobody'}"
        self.screen.line(harmless_text(f"{who}: {told.state}; {told.why}"))
