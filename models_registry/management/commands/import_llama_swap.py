"""`manage.py import_llama_swap FILE`: presets, groups and aliases of a llama-swap configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from models_registry.imports import llama_swap
from models_registry.imports.plan import Plan
from models_registry.imports.running import import_file


class Command(BaseCommand):
    help = "Take over what a llama-swap configuration says, and list what cannot be taken."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="llama-swap's config.yaml.")
        parser.add_argument(
            "--dry-run", action="store_true", help="Say what would be done, and do nothing."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        file: Path = options["file"]

        def plan(text: str) -> Plan:
            return llama_swap.plan(text, folder=file.absolute().parent, environment=os.environ)

        import_file(file, plan, self.stdout, dry_run=options["dry_run"])
