"""`manage.py rotatekey PUBLIC_ID [--grace HOURS]`: its successor, as the last line."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from models_registry.access import Asker
from models_registry.errors import ManagementRefused
from proxy.rotation import MOST_GRACE_HOURS, USUAL_GRACE_HOURS, rotate_key

OPERATOR = Asker("rotatekey on the command line", everything=True)


class Command(BaseCommand):
    help = "Make a key that takes the place of another one, and print it as the last line."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("public_id", help="the part of the old key between ck_ and the next _")
        parser.add_argument(
            "--grace",
            type=float,
            default=USUAL_GRACE_HOURS,
            metavar="HOURS",
            help="for so long the old key works beside the new one; unless told %(default)g",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        grace = options["grace"]
        if not 0 <= grace <= MOST_GRACE_HOURS:
            raise CommandError(f"--grace takes hours from 0 to {MOST_GRACE_HOURS:g}")
        try:
            self.stdout.write(rotate_key(options["public_id"], OPERATOR, grace_hours=grace).text)
        except ManagementRefused as refused:
            raise CommandError(refused.message) from refused
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error
