"""The scheduler's routes of the management API: what is live, and the record. All read only."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from models_registry.access import Needs
from models_registry.shapes import Page, Paged
from scheduler.describing import live_snapshot, status
from scheduler.models import DecisionRecord, InstanceRecord
from scheduler.schemas import (
    DecisionRecordFilter,
    DecisionRecordOut,
    InstanceOut,
    InstanceRecordFilter,
    InstanceRecordOut,
    QueueEntryOut,
    StatusOut,
)

live = Router(tags=["live"])
record = Router(tags=["record"])

VIEW_INSTANCES = Needs("scheduler.view_instancerecord")
VIEW_DECISIONS = Needs("scheduler.view_decisionrecord")


@live.get("/instances", auth=VIEW_INSTANCES, response=Paged[InstanceOut])
def list_instances(request: HttpRequest, page: Query[Page]) -> dict[str, Any]:
    """The children that run now."""
    return page.of(live_snapshot().instances)


@live.get("/queue", auth=VIEW_INSTANCES, response=Paged[QueueEntryOut])
def list_queue(request: HttpRequest, page: Query[Page]) -> dict[str, Any]:
    """The presets that requests wait for."""
    return page.of(live_snapshot().queue)


@live.get("/status", auth=VIEW_INSTANCES, response=StatusOut)
def get_status(request: HttpRequest) -> dict[str, Any]:
    """How all of it is; answers also while the scheduler does not."""
    return status()


@record.get("/instances", auth=VIEW_INSTANCES, response=Paged[InstanceRecordOut])
def list_instance_records(
    request: HttpRequest, page: Query[InstanceRecordFilter]
) -> dict[str, Any]:
    """Every child there was, the newest first."""
    return page.of(InstanceRecord.objects.filter(**page.conditions()).order_by("-id"))


@record.get("/decisions", auth=VIEW_DECISIONS, response=Paged[DecisionRecordOut])
def list_decisions(request: HttpRequest, page: Query[DecisionRecordFilter]) -> dict[str, Any]:
    """Why something was loaded, drained, evicted or refused, the newest first."""
    return page.of(DecisionRecord.objects.filter(**page.conditions()).order_by("-id"))
