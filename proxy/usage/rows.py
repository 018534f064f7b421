"""Records as rows. Whatever a record holds, the database takes it."""

from __future__ import annotations

from datetime import UTC, datetime

from proxy.models import UsageContent, UsageRecord
from proxy.usage.record import Record

_LONGEST = {
    field.name: field.max_length
    for field in UsageRecord._meta.concrete_fields
    if field.max_length is not None
}
_AS_THEY_ARE = (
    "team_id",
    "instance",
    "attempt",
    "final",
    "stream",
    "status",
    "read",
    "cached",
    "answered",
    "estimated",
    "charged",
    "queue_wait",
    "load_wait",
    "first_token",
    "duration",
    "upstream",
)


def row_of(record: Record) -> UsageRecord:
    row = UsageRecord(at=datetime.fromtimestamp(record.at, UTC))
    for name, longest in _LONGEST.items():
        setattr(row, name, _text(getattr(record, name), longest))
    for name in _AS_THEY_ARE:
        setattr(row, name, getattr(record, name))
    return row


def content_of(record: Record, row: UsageRecord) -> UsageContent | None:
    """`row` is in the database already."""
    content = record.content
    if content is None:
        return None
    prompt, answer = _text(content.prompt), _text(content.answer)
    return UsageContent(
        usage=row, team_id=row.team_id, at=row.at, prompt=prompt, answer=answer, cut=content.cut
    )


def _text(text: str, longest: int | None = None) -> str:
    """NUL is no text for PostgreSQL."""
    return text.replace("\0", "")[:longest]
