"""`manage.py rescan`: look into the sources of models now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from models_registry.sources.reading import configured_places
from models_registry.tasks import rescan_sources


class Command(BaseCommand):
    help = "Bring the registry in step with the folders in which models lie."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--models-dir",
            type=Path,
            help="The folder, as serve was given it; else CORRAL_MODELS_DIR.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        folder = options["models_dir"]
        places = configured_places()
        if folder:
            places = replace(places, models_dir=folder.expanduser().absolute())
        report = rescan_sources(places)
        for line in report.lines():
            if line not in report.faults:
                self.stdout.write(line)
        if report.faults:
            raise CommandError("\n".join(report.faults))
