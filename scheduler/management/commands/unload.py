"""`manage.py unload MODEL [--force]`: its instances go, once their answers have ended."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from models_registry import ports
from models_registry.operating import preset_meant
from scheduler.commanding import SchedulerCommand


class Command(SchedulerCommand):
    help = "Unload a model: its answers under way end first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", help="its name or an alias")
        parser.add_argument("--force", action="store_true", help="at once: answers are cut")

    def ask(self, options: dict[str, Any]) -> None:
        name = preset_meant(options["model"]).name
        went = ports.scheduler().unload(name, force=options["force"])
        self.screen.line(f"{name} is unloaded" if went else f"{name} was not loaded")
