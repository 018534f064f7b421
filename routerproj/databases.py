"""DATABASE_URL as Django's settings: SQLite or PostgreSQL, each set up for several processes that
read and write at once."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

SQLITE = "django.db.backends.sqlite3"
POSTGRESQL = "routerproj.postgresql"
SQLITE_SCHEMES = ("sqlite",)
POSTGRESQL_SCHEMES = ("postgres", "postgresql", "pgsql", "psql")
FORM = "postgres://USER:PASSWORD@HOST/NAME, or sqlite:////PATH"
LOCK_WAIT_SECONDS = 20
"""How long a writer waits for another one."""
IDLE_IN_TRANSACTION_SECONDS = 60
"""A process that hangs in a transaction lets go of its rows, for the others' sake."""
OF_THE_SERVER = {
    "lock_timeout": LOCK_WAIT_SECONDS * 1000,
    "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_SECONDS * 1000,
}
"""Milliseconds."""
OF_THE_CONNECTION: dict[str, object] = {
    "application_name": "corral",
    "connect_timeout": 5,
    # A server whose machine vanished is noticed within 15 s, idle or not
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
    "options": " ".join(f"-c {name}={value}" for name, value in OF_THE_SERVER.items()),
}
"""libpq's names: what DATABASE_URL says after `?` stands above them."""


def database_settings(url: str, var: Path) -> dict[str, Any]:
    """Of the database at `url`; when it is empty, of the file in the state folder. Raises
    ImproperlyConfigured for what is none."""
    if not url:
        return _sqlite({"ENGINE": SQLITE, "NAME": str(var / "corral.sqlite3")})
    scheme, slashes, _ = url.partition("://")
    if not slashes:
        scheme = ""
    if scheme in SQLITE_SCHEMES:
        return _sqlite(_parsed(url))
    if scheme in POSTGRESQL_SCHEMES:
        return _postgresql(_parsed(url), url)
    raise ImproperlyConfigured(
        f"DATABASE_URL begins with neither postgres:// nor sqlite://: it is {FORM}"
    )


def _parsed(url: str) -> dict[str, Any]:
    try:
        return dict(environ.Env.db_url_config(url))
    except ValueError:  # its words quote what they take for the port: it may be of the password
        raise ImproperlyConfigured(
            f"DATABASE_URL is not a URL of a database: it is {FORM}. What is no letter or digit in "
            "a password is written %2F for / and so on."
        ) from None


def _sqlite(values: dict[str, Any]) -> dict[str, Any]:
    if values["NAME"] == ":memory:":
        raise ImproperlyConfigured(
            f"DATABASE_URL names no file, and Corral is several processes: it is {FORM}"
        )
    values["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",  # no upgrade from read to write, which fails at once
        "timeout": LOCK_WAIT_SECONDS,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
    return values


def _postgresql(values: dict[str, Any], url: str) -> dict[str, Any]:
    if find_spec("psycopg") is None:
        raise ImproperlyConfigured(
            "DATABASE_URL asks for PostgreSQL, whose driver is not installed: "
            ".venv/bin/pip install --require-hashes -r locks/postgres.txt"
        )
    if not values["NAME"]:
        raise ImproperlyConfigured(f"DATABASE_URL names no database: it is {FORM}")
    options = values.get("OPTIONS", {})
    # A socket's folder, written as libpq takes it: %2Frun%2Fpostgresql, or ?host=/run/postgresql
    host = options.pop("host", "") or unquote(urlsplit(url).netloc.rpartition("@")[2])
    if host.startswith("/"):
        values["HOST"] = host
    return values | {"ENGINE": POSTGRESQL, "OPTIONS": OF_THE_CONNECTION | options}
