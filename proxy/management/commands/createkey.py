"""`manage.py createkey NAME [--team TEAM] [--admin]`: a new API key, printed as the last line."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from proxy.keys import create_key
from proxy.models import DEFAULT_TEAM, Scope


class Command(BaseCommand):
    help = "Make an API key and print it as the last line. It cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="who or what will use the key")
        parser.add_argument("--team", default=DEFAULT_TEAM, help="made if it does not exist")
        parser.add_argument(
            "--admin", action="store_true", help="the key may manage everything (docs/rest.md)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        scope = Scope.ADMIN if options["admin"] else Scope.INFERENCE
        try:
            self.stdout.write(create_key(options["name"], options["team"], scope=scope))
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error
