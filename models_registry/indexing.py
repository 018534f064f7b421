"""What model files' headers say, kept in rows: each state of a file is read once.

The work is a job (models_registry/index_jobs.py), ordered with `index_soon()`: after every change
of a model file's row by itself, and by whoever looked at the files.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from time import monotonic
from typing import Any

from django.db import transaction
from django.db.models.signals import post_save

from models_registry.gguf.metadata import Answer, Ask, Metadata, ReaderBroken, read_many
from models_registry.models import FileMetadata, ModelFile

logger = logging.getLogger(__name__)

CHUNK = 200
"""Rows of one transaction: others wait for it no longer than for a save or two."""
PROGRESS_SECONDS = 5.0

_SAID = [each.name for each in fields(Metadata)]
_WRITTEN = ["stamp", "error", "read_at", *_SAID]


@dataclass(slots=True)
class Indexed:
    """What one run did. `problem` says why it did not come to the end."""

    files: int = 0
    read: int = 0
    unreadable: int = 0
    missing: int = 0
    seconds: float = 0.0
    problem: str = ""

    def __str__(self) -> str:
        parts = [f"{self.files} files, {self.read} headers read in {self.seconds:.1f} s"]
        if self.unreadable:
            parts.append(f"{self.unreadable} unreadable")
        if self.missing:
            parts.append(f"{self.missing} missing")
        return "; ".join(filter(None, [*parts, self.problem]))

    def count(self, answer: Answer) -> None:
        self.files += 1
        self.read += answer.read
        self.unreadable += answer.read and bool(answer.error)
        self.missing += not answer.read and bool(answer.error)


def index_files() -> Indexed:
    """Read the headers that are new or have changed, and keep what they say. A missing file keeps
    what is known of it. May be killed at any moment and run again."""
    done, begun = Indexed(), monotonic()
    told_at = begun
    asks = _asks()
    unkept: list[Answer] = []
    try:
        for answer in read_many(asks):
            done.count(answer)
            if answer.read:
                unkept.append(answer)
            if len(unkept) >= CHUNK:
                _keep(unkept)
                unkept = []
            if monotonic() - told_at > PROGRESS_SECONDS:
                told_at = monotonic()
                logger.info("index: %d of %d files", done.files, len(asks))
    except ReaderBroken as failure:
        done.problem = str(failure)
    _keep(unkept)
    done.seconds = monotonic() - begun
    return done


def _asks() -> list[Ask]:
    """Those that did not answer the last time come last: a file system that hangs hides no more
    than it must."""
    rows = ModelFile.objects.values_list("pk", "path", "mmproj", "draft", "metadata__stamp")
    return [
        Ask(id, path, mmproj, draft, stamp or "")
        for id, path, mmproj, draft, stamp in sorted(rows, key=lambda row: (row[4] == "", row[1]))
    ]


def _keep(answers: Sequence[Answer]) -> None:
    """In one short transaction. A file that was forgotten meanwhile is left out."""
    if not answers:
        return
    with transaction.atomic():
        asked = ModelFile.objects.select_for_update().filter(
            pk__in=[each.ask.id for each in answers]
        )
        there = set(asked.values_list("pk", flat=True))
        rows = [
            FileMetadata(
                model_file_id=each.ask.id,
                stamp=each.stamp,
                error=each.error,
                **{name: getattr(each.metadata, name) for name in _SAID},
            )
            for each in answers
            if each.ask.id in there
        ]
        FileMetadata.objects.bulk_create(
            rows, update_conflicts=True, unique_fields=["model_file"], update_fields=_WRITTEN
        )


# When ------------------------------------------------------------------------------------------


def index_soon() -> None:
    """Order the job when the transaction under way has committed, once for all its changes."""
    connection = transaction.get_connection()
    if not any(entry[1] is _order for entry in connection.run_on_commit):
        transaction.on_commit(_order)


def _order() -> None:
    import_module("models_registry.index_jobs").order()


def _changed(**_: Any) -> None:
    index_soon()


def connect() -> None:
    """Called once, when Django is ready."""
    post_save.connect(_changed, sender=ModelFile, dispatch_uid="models_registry.indexing")
