"""The routes of the audit trail: all of it for who may see it, a team's for its leads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

import msgspec
from asgiref.sync import sync_to_async
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Query, Router, Schema
from pydantic import Field

from models_registry.access import Asker, asker_of
from models_registry.audit.exporting import Form, pieces
from models_registry.audit.searching import Search
from models_registry.errors import ManagementRefused
from models_registry.models import AuditRecord
from models_registry.shapes import Asked, Moment, Page, Paged
from proxy.access import somebody
from proxy.members import teams_led_by_id

audit = Router(tags=["audit"])

SEE_ALL = "models_registry.view_auditrecord"
TYPES = {Form.CSV: "text/csv; charset=utf-8", Form.JSON_LINES: "application/jsonl"}


class NeedsTrail:
    """ninja's `auth=`: admin keys, who has the permission, and leads."""

    csrf = True  # the docs page then sends the token of its session along

    def __call__(self, request: HttpRequest) -> Asker:
        asker = somebody(request)
        if not (_sees_all(asker) or _teams(asker)):
            raise PermissionDenied(f"{asker.label} may not read the audit trail")
        return asker


class _Sought(Asked):
    who: str = Field("", max_length=200, description="Part of a name, or a key's public id.")
    action: str = Field("", max_length=30, description="created, changed, deleted, loaded …")
    type: str = Field("", max_length=30, description="preset, alias, key, team, user …")
    object: str = Field("", max_length=250, description="Part of the object's name.")
    id: str = Field("", max_length=40, description="The object's number.")
    door: str = Field("", max_length=20, description="admin, rest, models, ollama, command …")
    origin: str = Field("", max_length=500, description="Part of an address, or of a file's path.")
    request_id: str = Field("", max_length=128, description="x-request-id of an answer.")
    since: Moment | None = Field(None, description="The first moment.")
    until: Moment | None = Field(None, description="The moment after the last.")


class AuditAsked(_Sought, Page):
    pass


class AuditExportAsked(_Sought):
    pass


class AuditOut(Schema):
    number: int
    at: datetime
    actor: str
    kind: str = Field(description="user, key, command line, job, nobody")
    user: int | None
    key: str = Field(description="A key's public id.")
    door: str
    origin: str = Field(description="A client's address, a command, or a file.")
    action: str
    object_type: str
    object_id: str
    object_name: str
    team: int | None
    changes: dict[str, Any] = Field(description="By field: the value before, and after.")
    note: str
    request_id: str
    digest: str

    @staticmethod
    def resolve_changes(row: Any) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(row.changes)
        return found


@audit.get("", auth=NeedsTrail(), response=Paged[AuditOut])
def list_audit(request: HttpRequest, asked: Query[AuditAsked]) -> dict[str, Any]:
    """Who changed what, when and from where; the newest first."""
    return asked.of(_rows(request, asked))


@audit.get("/export.jsonl", auth=NeedsTrail(), response={200: None})
def export_audit_lines(
    request: HttpRequest, asked: Query[AuditExportAsked]
) -> StreamingHttpResponse:
    """JSON lines, the oldest first; `manage.py audit --verify FILE` checks a whole export."""
    return _export(_rows(request, asked), Form.JSON_LINES)


@audit.get("/export.csv", auth=NeedsTrail(), response={200: None})
def export_audit_csv(request: HttpRequest, asked: Query[AuditExportAsked]) -> StreamingHttpResponse:
    """The same for a spreadsheet."""
    return _export(_rows(request, asked), Form.CSV)


@audit.get("/{int:number}", auth=NeedsTrail(), response=AuditOut)
def get_audit(request: HttpRequest, number: int) -> AuditRecord:
    found = _seen_by(asker_of(request)).filter(number=number).first()
    if found is None:
        raise ManagementRefused("not_found", f"There is no audit record {number}.")
    return found


def _rows(request: HttpRequest, asked: _Sought) -> QuerySet[AuditRecord]:
    names = Search.__dataclass_fields__
    search = Search(**{name: getattr(asked, name) for name in names})
    return _seen_by(asker_of(request)).filter(search.conditions()).order_by("-number")


def _seen_by(asker: Asker) -> QuerySet[AuditRecord]:
    rows = AuditRecord.objects.all()
    return rows if _sees_all(asker) else rows.filter(team__in=_teams(asker))


def _sees_all(asker: Asker) -> bool:
    return asker.everything or (asker.manages and asker.may(SEE_ALL))


def _teams(asker: Asker) -> frozenset[int]:
    """Those that they lead. A key leads none: it is given away."""
    if asker.key or asker.user is None:
        return frozenset()
    return teams_led_by_id(asker.user)


def _export(rows: QuerySet[AuditRecord], form: Form) -> StreamingHttpResponse:
    answer = StreamingHttpResponse(_streamed(pieces(rows, form)), content_type=TYPES[form])
    answer["Content-Disposition"] = f'attachment; filename="audit.{form}"'
    return answer


async def _streamed(found: Iterator[bytes]) -> AsyncIterator[bytes]:
    take = sync_to_async(lambda: next(found, None))
    while (piece := await take()) is not None:
        yield piece
