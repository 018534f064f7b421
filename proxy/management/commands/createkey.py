"""`manage.py createkey NAME [--team TEAM] [--scopes infer,read] [--admin] [--again]`: a new key of
a service, as the last line."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from proxy.keys import create_key
from proxy.models import DEFAULT_TEAM, ApiKey
from proxy.scopes import USUAL, Scope


class Command(BaseCommand):
    help = "Make an API key and print it as the last line. It cannot be shown again."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="who or what will use the key")
        parser.add_argument("--team", default=DEFAULT_TEAM, help="made if it does not exist")
        parser.add_argument(
            "--scopes",
            default=",".join(USUAL),
            help=f"what it is good for, of {', '.join(Scope)}; unless told %(default)s",
        )
        parser.add_argument(
            "--admin", action="store_true", help="the key may manage everything (docs/rest.md)"
        )
        parser.add_argument(
            "--again", action="store_true", help="also when the team has a key of this name"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["again"]:
            self._refuse_a_second(options["name"], options["team"])
        scopes = [Scope.ADMIN] if options["admin"] else options["scopes"].split(",")
        try:
            self.stdout.write(create_key(options["name"], options["team"], scopes=scopes))
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error

    def _refuse_a_second(self, name: str, team: str) -> None:
        """Nothing breaks by two of a name; but who revokes one would think that both are gone."""
        rows = ApiKey.objects.filter(team__name=team, name=name, revoked_at=None)
        if rows.exists():
            raise CommandError(
                f"team {team} has a key named {name} already ({', '.join(map(str, rows))}): choose "
                "another name, revoke that one in the admin, or say --again for a second one"
            )
