"""`manage.py pin MODEL`: it is never evicted for another model."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from models_registry.operating import OperatorCommand
from models_registry.pinning import pinned


class Command(OperatorCommand):
    help = "Never evict a model for another one."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", help="its name or an alias")

    def work(self, options: dict[str, Any]) -> None:
        self.screen.line(pinned(options["model"], True))
