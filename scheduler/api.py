"""The scheduler's routes of the management API: what is live, the record, and limits of devices."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from models_registry.access import Needs, asker_of
from models_registry.shapes import Page, Paged
from scheduler import limits
from scheduler.describing import explained, live_devices, live_snapshot, status, waiters_of
from scheduler.models import DecisionRecord, DeviceLimit, InstanceRecord
from scheduler.protocol import Explained
from scheduler.schemas import (
    DecisionRecordFilter,
    DecisionRecordOut,
    DeviceLimitOut,
    DeviceLimitPatch,
    DeviceStateOut,
    ExplainedOut,
    InstanceOut,
    InstanceRecordFilter,
    InstanceRecordOut,
    QueueEntryOut,
    QueuePage,
    StatusOut,
    WaiterOut,
)

live = Router(tags=["live"])
record = Router(tags=["record"])

VIEW_INSTANCES = Needs("scheduler.view_instancerecord")
CHANGE_LIMITS = Needs("scheduler.change_devicelimit")
VIEW_DECISIONS = Needs("scheduler.view_decisionrecord")


@live.get("/instances", auth=VIEW_INSTANCES, response=Paged[InstanceOut])
def list_instances(request: HttpRequest, page: Query[Page]) -> dict[str, Any]:
    """The children that run now."""
    return page.of(live_snapshot().instances)


@live.get("/devices", auth=VIEW_INSTANCES, response=Paged[DeviceStateOut])
def list_devices(request: HttpRequest, page: Query[Page]) -> dict[str, Any]:
    """What each device has in memory, and who holds how much of it."""
    return page.of(live_devices())


@live.patch("/devices/{str:device}", auth=CHANGE_LIMITS, response=DeviceLimitOut)
def change_limit(request: HttpRequest, device: str, body: DeviceLimitPatch) -> DeviceLimit:
    """What Corral may use of it, and what stays free; it counts at once."""
    return limits.change_limit(device, body.model_dump(exclude_unset=True), asker_of(request))


@live.get("/queue", auth=VIEW_INSTANCES, response=Paged[QueueEntryOut])
def list_queue(request: HttpRequest, page: Query[Page]) -> dict[str, Any]:
    """The presets that requests wait for, in the order in which they will be loaded."""
    return page.of(live_snapshot().queue)


@live.get("/queue/{path:name}", auth=VIEW_INSTANCES, response=Paged[WaiterOut])
def list_waiters(request: HttpRequest, name: str, page: Query[QueuePage]) -> dict[str, Any]:
    """Who waits for a preset, the next first."""
    told = waiters_of(name, limit=page.limit, offset=page.offset)
    return {"items": told.items, "count": told.count}


@live.get("/explain/{str:request_id}", auth=VIEW_INSTANCES, response=ExplainedOut)
def explain(request: HttpRequest, request_id: str) -> Explained:
    """Where a request stands, and why: by the `x-request-id` that its client got."""
    return explained(request_id)


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
