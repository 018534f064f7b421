"""`manage.py resetsecondfactor USERNAME`: for who has lost their app and their recovery codes."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from proxy.account.second_factor import remove
from proxy.account.sessions import end_sessions_of


class Command(BaseCommand):
    help = "Take the second factor from an account, and end its sessions."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["username"]
        user = User.objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"No user is called {name!r}.")
        had = remove(user)
        ended = end_sessions_of(user)
        what = "has none any more" if had else "had none"
        self.stdout.write(f"Second factor: {name} {what}; {ended} sessions ended.")
