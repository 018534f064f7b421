"""What the tests of the trail share."""

from __future__ import annotations

import json
from typing import Any

from models_registry.audit import chain
from models_registry.models import AuditRecord


def last(**conditions: Any) -> AuditRecord:
    found = AuditRecord.objects.filter(**conditions).first()
    assert found is not None
    return found


def changes(record: AuditRecord) -> Any:
    return json.loads(record.changes)


def links() -> list[chain.Link]:
    return [chain.Link.of(row) for row in AuditRecord.objects.order_by("number").values()]


def told(*fields: str, **conditions: Any) -> list[Any]:
    """The oldest first."""
    rows = AuditRecord.objects.filter(**conditions).order_by("number")
    return list(rows.values_list(*fields, flat=len(fields) == 1))
