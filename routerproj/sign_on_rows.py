"""Rows of single sign-on where its library is not loaded: they stay when it is turned off, and the
database lets nobody be deleted whom they name."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db import connections

DELETIONS = {
    "socialaccount_socialtoken": "account_id IN (SELECT id FROM socialaccount_socialaccount"
    " WHERE user_id = %s)",
    "socialaccount_socialaccount": "user_id = %s",
    "account_emailconfirmation": "email_address_id IN (SELECT id FROM account_emailaddress"
    " WHERE user_id = %s)",
    "account_emailaddress": "user_id = %s",
}
"""By table, in an order in which each may go."""


def let_go(sender: Any, instance: User, using: str, **kwargs: Any) -> None:
    """Receives pre_delete of users."""
    connection = connections[using]
    there = set(connection.introspection.table_names())
    with connection.cursor() as cursor:
        for table, whose in DELETIONS.items():
            if table in there:
                cursor.execute(f"DELETE FROM {table} WHERE {whose}", [instance.pk])
