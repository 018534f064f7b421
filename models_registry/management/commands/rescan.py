"""`manage.py rescan`: look into the models folder now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from models_registry.discovery import rescan
from models_registry.errors import ModelsFolderMissing
from models_registry.tasks import rescan_models_dir


class Command(BaseCommand):
    help = "Bring the registry in step with the models folder."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--models-dir",
            type=Path,
            help="The folder, as serve was given it; else CORRAL_MODELS_DIR.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        folder = options["models_dir"]
        try:
            report = rescan(folder) if folder else rescan_models_dir()
        except ModelsFolderMissing as error:
            raise CommandError(str(error)) from error
        for line in report.lines():
            self.stdout.write(line)
