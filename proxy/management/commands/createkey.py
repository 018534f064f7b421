"""`manage.py createkey NAME [--team TEAM]`: a new API key, printed as the last line."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from proxy.keys import create_key
from proxy.models import DEFAULT_TEAM


class Command(BaseCommand):
    help = "Make an API key and print it as the last line. It cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="who or what will use the key")
        parser.add_argument("--team", default=DEFAULT_TEAM, help="made if it does not exist")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(create_key(options["name"], options["team"]))
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error
