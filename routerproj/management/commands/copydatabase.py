"""`manage.py copydatabase FILE`: an SQLite file into the PostgreSQL of DATABASE_URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from routerproj.copying import NotCopied, copy_rows
from routerproj.serve.state_lock import StateInUse, StateLock


class Command(BaseCommand):
    help = (
        "Copies all that Corral keeps in an SQLite file into the PostgreSQL of DATABASE_URL, which "
        "has to be empty. The gateway must not run meanwhile; the file stays as it is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="var/corral.sqlite3, unless it lies elsewhere")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            StateLock(settings.CORRAL_VAR)
            copy_rows(options["file"], self._tell)
        except (NotCopied, StateInUse) as problem:
            raise CommandError(f"Nothing was copied: {problem}.") from problem
        self.stdout.write("All of it is copied. Keep DATABASE_URL as it is, and start the gateway.")

    def _tell(self, table: str, rows: int) -> None:
        if rows:
            self.stdout.write(f"{rows:>9}  {table}")
