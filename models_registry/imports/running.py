"""What the import commands have in common."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from django.core.management.base import CommandError, OutputWrapper

from models_registry.access import Asker
from models_registry.audit.actors import Door, through
from models_registry.errors import ImportRefused
from models_registry.imports.applying import apply
from models_registry.imports.plan import ImportReport, Plan

LARGEST = 4 << 20
"""Bytes: more than any of these files has."""


OPERATOR = Asker("an import on the command line", everything=True)


def reading(file: Path) -> AbstractContextManager[None]:
    """What is written in the block is from that file."""
    return through(Door.IMPORT, str(file.absolute()))


def import_file(
    file: Path, plan: Callable[[str], Plan], stdout: OutputWrapper, *, dry_run: bool
) -> None:
    """Say line by line what was done. Raises CommandError for a file that cannot be read, and at
    the end where something of it was not taken."""
    try:
        with reading(file):
            report = apply(plan(_text(file)), OPERATOR, dry_run=dry_run)
    except ImportRefused as refused:
        raise CommandError(f"{file}: {refused}. Nothing was changed.") from refused
    tell(report, file, stdout)
    if not report.added:
        raise CommandError(f"{file}: nothing of it was added.")


def tell(report: ImportReport, file: Path, stdout: OutputWrapper) -> None:
    """Raises CommandError, so that the command exits with 1, where something was not taken."""
    for line in report.lines():
        stdout.write(line)
    if report.skipped:
        raise CommandError(f"{file}: {len(report.skipped)} of its models were not taken.")


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST + 1)
    except OSError as error:
        raise ImportRefused(f"it cannot be read: {error.strerror}") from error
    if len(content) > LARGEST:
        raise ImportRefused(f"it is larger than {LARGEST} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ImportRefused(f"it is no UTF-8 text: {error.reason} at byte {error.start}") from error
