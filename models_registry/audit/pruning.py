"""Removes what is old. The one way in which a record goes, and it leaves one itself: the database
deletes only what such a record names."""

from __future__ import annotations

from datetime import datetime

from django.db import connection, transaction

from models_registry.audit import chain, triggers
from models_registry.audit.exporting import links
from models_registry.audit.writing import Entry, append
from models_registry.models import AuditRecord


class NotSound(Exception):
    """What would go is not as it was written: removing it would hide that."""


def last_before(moment: datetime) -> int:
    """The last of the records that are all older; 0 when there are none."""
    kept = AuditRecord.objects.filter(at__gte=moment).order_by("number")
    first_kept = kept.values_list("number", flat=True).first()
    older = AuditRecord.objects.filter(at__lt=moment)
    if first_kept is not None:
        older = older.filter(number__lt=first_kept)
    return older.order_by("-number").values_list("number", flat=True).first() or 0


def prune(through: int, note: str) -> int:
    """Removes the records up to `through`; how many there were. Raises NotSound."""
    with transaction.atomic():
        going = AuditRecord.objects.filter(number__lte=through)
        verdict = chain.verify(links(AuditRecord.objects.all()))
        if not verdict.sound:
            raise NotSound("; ".join(verdict.problems[:3]))
        count = going.count()
        if not count:
            return 0
        digest = AuditRecord.objects.values_list("digest", flat=True).get(number=through)
        told = f"records {verdict.first} to {through}"
        changes = {"through": (None, through), "digest": (None, digest)}
        pruned = Entry(chain.PRUNED, "audit trail", through, told, changes, note=note)
        append([pruned], prunes_through=through)
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {triggers.TABLE} WHERE number <= %s", [through])
    return count
