"""PostgreSQL, where transactions follow one another as they do on SQLite.

Rules that span rows and tables (a name is one preset's or one alias's, somebody stays who may
administer) are checked in the transaction that writes. SQLite's IMMEDIATE transactions wait for
each other, so what was checked still holds when it is written; PostgreSQL's would run side by
side. docs/decisions/0027-one-writer.md says why this is one lock and not many.
"""

from __future__ import annotations

from django.db.backends.postgresql import base

LOCK = int.from_bytes(b"corral")
"""Advisory locks have numbers; each database has its own."""


class DatabaseWrapper(base.DatabaseWrapper):
    def set_autocommit(
        self, autocommit: bool, force_begin_transaction_with_broken_autocommit: bool = False
    ) -> None:
        """Django's outermost `atomic` begins with False and True, and nothing else does.

        Raises OperationalError when the others take longer than `lock_timeout`.
        """
        super().set_autocommit(autocommit, force_begin_transaction_with_broken_autocommit)
        if autocommit or not force_begin_transaction_with_broken_autocommit:
            return
        try:
            with self.wrap_database_errors:
                self.connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        except BaseException:
            self.close()  # `atomic` has not begun: nobody else would end this transaction
            raise
