"""`manage.py linkaccount USERNAME SUBJECT`: an account that was here before is theirs who comes by
single sign-on as SUBJECT. The log names it when they are refused."""

from __future__ import annotations

from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from models_registry.audit.writing import record
from routerproj.sign_on.conf import sign_on


class Command(BaseCommand):
    help = "Say that an account is theirs who comes by single sign-on as SUBJECT."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("subject", help="the provider's `sub` for them")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"No user is called {options['username']!r}.")
        with transaction.atomic():
            row, made = SocialAccount.objects.get_or_create(
                provider=sign_on().issuer, uid=options["subject"], defaults={"user": user}
            )
            if made:
                changes = {"subject": (None, row.uid)}
                record("sign-on linked", "user", user.get_username(), id=user.pk, changes=changes)
        if not made and row.user != user:
            raise CommandError(f"{options['subject']} is {row.user.get_username()!r} already.")
        self.stdout.write(f"{user.get_username()} comes by single sign-on as {row.uid}.")
