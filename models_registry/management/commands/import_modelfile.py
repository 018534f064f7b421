"""`manage.py import_modelfile FILE --name NAME`: an Ollama Modelfile as a preset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from models_registry.imports import modelfile
from models_registry.imports.plan import Plan
from models_registry.imports.running import import_file


class Command(BaseCommand):
    help = "Take over what an Ollama Modelfile says, and list what cannot be taken."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="The Modelfile.")
        parser.add_argument("--name", required=True, help="What the preset is to be called.")
        parser.add_argument(
            "--dry-run", action="store_true", help="Say what would be done, and do nothing."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        file: Path = options["file"]

        def plan(text: str) -> Plan:
            return modelfile.plan(text, options["name"], folder=file.absolute().parent)

        import_file(file, plan, self.stdout, dry_run=options["dry_run"])
