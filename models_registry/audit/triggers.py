"""The database itself refuses to change the trail: by triggers, which both databases have.

What a record of a pruning names may be deleted, and nothing else. An installation whose triggers
somebody took away is told so by `manage.py audit --verify`.
"""

from __future__ import annotations

from typing import Any

TABLE = "models_registry_auditrecord"
NAMES = ("audit_refuse_update", "audit_refuse_delete", "audit_refuse_again")
_SAID = "the audit trail is append-only: only `manage.py audit --prune` removes what is old"
_KEPT = f"NOT EXISTS (SELECT 1 FROM {TABLE} WHERE prunes_through >= OLD.number)"

_SQLITE = (
    f"CREATE TRIGGER IF NOT EXISTS {NAMES[0]} BEFORE UPDATE ON {TABLE} "
    f"BEGIN SELECT RAISE(ABORT, '{_SAID}'); END",
    f"CREATE TRIGGER IF NOT EXISTS {NAMES[1]} BEFORE DELETE ON {TABLE} WHEN {_KEPT} "
    f"BEGIN SELECT RAISE(ABORT, '{_SAID}'); END",
    # INSERT OR REPLACE deletes without asking the trigger for deletes.
    f"CREATE TRIGGER IF NOT EXISTS {NAMES[2]} BEFORE INSERT ON {TABLE} "
    f"WHEN EXISTS (SELECT 1 FROM {TABLE} WHERE number = NEW.number) "
    f"BEGIN SELECT RAISE(ABORT, '{_SAID}'); END",
)
_POSTGRESQL = (
    "CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{_SAID}'; END $$",
    "CREATE OR REPLACE FUNCTION audit_refuse_what_is_kept() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN IF {_KEPT} THEN RAISE EXCEPTION '{_SAID}'; END IF; RETURN OLD; END $$",
    f"CREATE OR REPLACE TRIGGER {NAMES[0]} BEFORE UPDATE ON {TABLE} "
    "FOR EACH ROW EXECUTE FUNCTION audit_refuse()",
    f"CREATE OR REPLACE TRIGGER {NAMES[1]} BEFORE DELETE ON {TABLE} "
    "FOR EACH ROW EXECUTE FUNCTION audit_refuse_what_is_kept()",
    f"CREATE OR REPLACE TRIGGER {NAMES[2]} BEFORE TRUNCATE ON {TABLE} "
    "FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse()",
)
_THERE = {
    "sqlite": f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{TABLE}'",
    "postgresql": f"SELECT tgname FROM pg_trigger WHERE tgrelid = '{TABLE}'::regclass "
    "AND tgenabled <> 'D'",
}


def install(connection: Any) -> None:
    with connection.cursor() as cursor:
        for statement in _SQLITE if connection.vendor == "sqlite" else _POSTGRESQL:
            cursor.execute(statement)


def remove(connection: Any) -> None:
    on = "" if connection.vendor == "sqlite" else f" ON {TABLE}"
    with connection.cursor() as cursor:
        for name in NAMES:
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}{on}")


def missing(connection: Any) -> list[str]:
    """The names of those that ought to be there."""
    with connection.cursor() as cursor:
        cursor.execute(_THERE[connection.vendor])
        there = {name for (name,) in cursor.fetchall()}
    return [name for name in NAMES if name not in there]
