"""What keeps a database from being Corral's, found before anything is served.

docs/messages.md explains each id. Asked by `serve` at its start, and by `manage.py check --database
default`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError, NotSupportedError, connections
from django.db.backends.base.base import BaseDatabaseWrapper


@register(Tags.database)
def check_database(
    app_configs: Sequence[Any] | None, databases: Collection[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    if not databases or "default" not in databases:
        return []
    connection = connections["default"]
    try:
        connection.ensure_connection()
        return _unfit(connection) if connection.vendor == "postgresql" else []
    except NotSupportedError as error:  # Django knows which versions it speaks to
        return [
            Error(
                f"the database server is too old: {error}",
                hint="Upgrade the server, or unset DATABASE_URL to use SQLite.",
                id="corral.E004",
            )
        ]
    except DatabaseError as error:
        return [
            Error(
                f"the database {connection.settings_dict['NAME']} cannot be used: {error}",
                hint=WAY_IN[connection.vendor],
                id="corral.E003",
            )
        ]


WAY_IN = {
    "sqlite": "Is it a file of SQLite that this user may write, on a local disk?",
    "postgresql": "Does the server run, and has DATABASE_URL its host, a user and a database of"
    " the user's?",
}


FACTS = """
SELECT current_setting('server_encoding'),
       current_setting('transaction_read_only'),
       has_schema_privilege(current_schema(), 'CREATE'),
       current_user,
       current_database()
"""


def _unfit(connection: BaseDatabaseWrapper) -> list[CheckMessage]:
    with connection.cursor() as cursor:
        cursor.execute(FACTS)
        encoding, read_only, may_create, user, database = cursor.fetchone()
    found: list[CheckMessage] = []
    if encoding != "UTF8":
        found.append(
            Error(
                f"the database {database} keeps texts as {encoding}: names and prompts need UTF8",
                hint=f"CREATE DATABASE {database} ENCODING 'UTF8' TEMPLATE template0 OWNER {user};",
                id="corral.E005",
            )
        )
    if read_only == "on":
        found.append(
            Error(
                f"the database {database} can only be read",
                hint="Is it a standby? Let DATABASE_URL lead to the primary server.",
                id="corral.E006",
            )
        )
    elif not may_create:  # NULL when the user may use no schema at all
        found.append(
            Error(
                f"the user {user} may make no tables in the database {database}",
                hint=f"ALTER DATABASE {database} OWNER TO {user};",
                id="corral.E007",
            )
        )
    return found
