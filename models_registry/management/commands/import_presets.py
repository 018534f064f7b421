"""`manage.py import_presets FILE`: presets of a llama.cpp INI file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from models_registry.errors import ImportRefused
from models_registry.imports.running import OPERATOR, reading, tell
from models_registry.ini.importing import import_ini
from models_registry.ini.text import IniError, decoded

LARGEST = 4 << 20  # bytes


class Command(BaseCommand):
    help = "Take over the presets of a llama.cpp INI file (--models-preset)."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="The INI file.")
        parser.add_argument(
            "--dry-run", action="store_true", help="Say what would be done, and do nothing."
        )
        parser.add_argument(
            "--ignore-unknown",
            action="store_true",
            help="Keys that cannot be taken are warnings, and the rest is taken.",
        )
        parser.add_argument(
            "--replace",
            action="store_true",
            help="Also change what a preset already says otherwise.",
        )

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        try:
            with reading(file):
                report = import_ini(
                    _text(file),
                    OPERATOR,
                    folder=str(file.absolute().parent),
                    dry_run=options["dry_run"],
                    ignore_unknown=options["ignore_unknown"],
                    replace=options["replace"],
                )
        except (ImportRefused, IniError) as error:
            lines = "\n".join(f"{file}: {line}" for line in str(error).splitlines())
            raise CommandError(f"{lines}\nNothing was changed.") from error
        tell(report, file, self.stdout)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise ImportRefused(f"it cannot be read: {error.strerror}") from error
    if len(data) > LARGEST:
        raise ImportRefused(f"it is larger than {LARGEST >> 20} MiB")
    return decoded(data)
