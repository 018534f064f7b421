"""`manage.py audit`: search the audit trail, verify it, export it, remove what is old."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from models_registry.audit import chain, triggers
from models_registry.audit.exporting import Form, links, links_of_lines, pieces
from models_registry.audit.pruning import NotSound, last_before, prune
from models_registry.audit.searching import Search
from models_registry.models import AuditRecord

LONGEST_VALUE = 60
"""Characters of a value in a line for people."""


class Command(BaseCommand):
    help = "Who changed what, when and from where: search, --verify, --export, --prune."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--who", default="", help="Part of a name, or a key's public id.")
        parser.add_argument("--action", default="", help="created, changed, deleted, loaded …")
        parser.add_argument("--type", default="", help="preset, alias, key, team, user …")
        parser.add_argument("--object", default="", help="Part of the object's name.")
        parser.add_argument("--door", default="", help="admin, rest, models, ollama, command …")
        parser.add_argument("--since", type=_moment, help="2026-01-31, or 2026-01-31T12:00Z.")
        parser.add_argument("--until", type=_moment, help="Before that.")
        parser.add_argument("--limit", type=int, default=50, help="The newest so many; 0: all.")
        deeds = parser.add_mutually_exclusive_group()
        deeds.add_argument(
            "--verify",
            nargs="?",
            const="",
            metavar="FILE",
            help="Whether all is as it was written; of an export as JSON lines, with its name.",
        )
        deeds.add_argument(
            "--protect", action="store_true", help="Have the database refuse changes again."
        )
        deeds.add_argument(
            "--prune",
            nargs="?",
            const=0,
            type=int,
            metavar="DAYS",
            help="Remove what is older, after it was exported; CORRAL_AUDIT_DAYS unless told.",
        )
        parser.add_argument("--expect", default="", help="A digest noted once: must be there.")
        parser.add_argument("--export", metavar="FILE", help="What was found; - is the output.")
        parser.add_argument("--format", type=Form, choices=list(Form), help="By FILE's ending.")
        parser.add_argument(
            "--discard", action="store_true", help="With --prune: without an export."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["verify"] is not None:
            self._verify(options["verify"], options["expect"])
        elif options["protect"]:
            triggers.install(connection)
        elif options["prune"] is not None:
            self._prune(options["prune"] or settings.CORRAL_AUDIT_DAYS, options)
        elif options["export"]:
            count = _exported(_search(options).rows(), options["export"], options["format"])
            if options["export"] != "-":
                self.stdout.write(f"{options['export']}: {count} records")
        else:
            self._tell(_search(options).rows(), options["limit"])

    def _tell(self, rows: QuerySet[AuditRecord], limit: int) -> None:
        """The newest last, as it is read."""
        for row in reversed(rows[:limit] if limit else rows):
            self.stdout.write(told(row))

    def _verify(self, file: str, expect: str) -> None:
        problems = []
        if file:
            try:
                with Path(file).open("rb") as lines:
                    verdict = chain.verify(links_of_lines(lines), expect=expect, is_part=True)
            except (OSError, ValueError) as error:
                raise CommandError(f"{file}: {error}") from error
        else:
            verdict = chain.verify(links(AuditRecord.objects.all()), expect=expect)
            if gone := triggers.missing(connection):
                problems.append(
                    f"the database no longer refuses all changes: the triggers {', '.join(gone)} "
                    "are missing; `manage.py audit --protect` makes them again"
                )
        problems += verdict.problems
        if problems:
            raise CommandError("\n".join(problems))
        self.stdout.write(
            f"{verdict.count} records, {verdict.first} to {verdict.last}, all as they were written"
        )
        self.stdout.write(f"digest of the last: {verdict.digest}")

    def _prune(self, days: int, options: dict[str, Any]) -> None:
        if days < 1:
            raise CommandError("--prune: write a number of days, 1 or more")
        if bool(options["export"]) == options["discard"]:
            raise CommandError(
                "--prune: say where to what goes is written, --export FILE.jsonl, or --discard"
            )
        through = last_before(timezone.now() - timedelta(days=days))
        if not through:
            self.stdout.write(f"nothing is older than {days} days")
            return
        note = "without an export"
        if options["export"]:
            rows = AuditRecord.objects.filter(number__lte=through)
            _exported(rows, options["export"], options["format"])
            note = f"exported to {Path(options['export']).absolute()}"
        try:
            count = prune(through, note)
        except NotSound as error:
            raise CommandError(
                f"nothing was removed, for the trail is not sound: {error}"
            ) from error
        self.stdout.write(f"{count} records older than {days} days are removed, {note}")


def told(row: AuditRecord) -> str:
    """One line for people."""
    at = timezone.localtime(row.at)
    line = (
        f"{row.number} {at:%Y-%m-%d %H:%M:%S} {row.actor}, {row.door}"
        f"{f' from {row.origin}' if row.origin else ''}: {row.action} {row.object_type}"
        f" {row.object_name}"
    )
    changes = "; ".join(
        f"{name}: {_short(before)} → {_short(after)}"
        for name, (before, after) in json.loads(row.changes).items()
    )
    told_of = f" [{changes}]" if changes else ""
    return f"{line}{told_of}{f' ({row.note})' if row.note else ''}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split()) or "-"
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"


def _search(options: dict[str, Any]) -> Search:
    names = ("who", "action", "type", "object", "door", "since", "until")
    return Search(**{name: options[name] for name in names})


def _exported(rows: QuerySet[AuditRecord], file: str, form: Form | None) -> int:
    """How many. The file is new, for this account alone, and on the disk when this returns."""
    chosen = form or (Form.CSV if file.endswith(".csv") else Form.JSON_LINES)
    if file == "-":
        return _written(rows, chosen, sys.stdout.buffer)
    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from error
    with os.fdopen(opened, "wb") as output:
        count = _written(rows, chosen, output)
        output.flush()
        os.fsync(output.fileno())
    return count


def _written(rows: QuerySet[AuditRecord], form: Form, output: BinaryIO) -> int:
    for piece in pieces(rows, form):
        output.write(piece)
    return rows.count()


def _moment(text: str) -> datetime:
    """argparse's type: raises ValueError."""
    found = parse_datetime(text if "T" in text or " " in text else f"{text}T00:00")
    if found is None:
        raise ValueError(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
