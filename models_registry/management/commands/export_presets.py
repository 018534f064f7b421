"""`manage.py export_presets`: the presets as an INI file for llama.cpp, or for another Corral."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from models_registry.errors import EngineMissing
from models_registry.ini.exporting import export_ini
from models_registry.models import Preset


class Command(BaseCommand):
    help = "Write presets as an INI file that llama.cpp's router reads too."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("names", nargs="*", help="These presets; all when none is named.")
        parser.add_argument("-o", "--output", type=Path, help="The file; else standard output.")

    def handle(self, *args: Any, names: list[str], output: Path | None, **options: Any) -> None:
        known = set(Preset.objects.values_list("name", flat=True))
        if unknown := [name for name in names if name not in known]:
            raise CommandError(f"no preset is called {', '.join(unknown)}")
        try:
            text = export_ini(names or None)
            if output is not None:
                output.write_text(text)
        except (EngineMissing, OSError) as error:
            raise CommandError(str(error)) from error
        if output is None:
            self.stdout.write(text, ending="")
