"""POST /models/load and /models/unload, as llama.cpp's router has them.

Both take the scope `load`, and only what the key may use. An answer is never cut for an unload.
"""

from __future__ import annotations

from proxy.audit_notes import AuditNotes
from proxy.callers import Caller
from proxy.carriage import Request
from proxy.conf import ProxyConfig
from proxy.model_changes import model_in, small_body
from scheduler.client import SchedulerClient
from scheduler.protocol import Refused

SUCCESS = {"success": True}


class ModelLoading:
    def __init__(self, config: ProxyConfig, notes: AuditNotes) -> None:
        self._seconds = config.body_timeout_seconds
        self._notes = notes

    async def load(
        self, scheduler: SchedulerClient, caller: Caller, request: Request
    ) -> dict[str, bool]:
        """It is queued, and waits its turn like a request. Raises Refused."""
        name = model_in(await small_body(request.receive, self._seconds))
        answer = await scheduler.load(name, allowed=caller.allowed)
        if "instance" in answer:
            raise Refused("invalid_request", "model is already running")
        await self._notes.note("loaded", name, caller, request)
        return SUCCESS

    async def unload(
        self, scheduler: SchedulerClient, caller: Caller, request: Request
    ) -> dict[str, bool]:
        """It goes when its answers are over; a load under way is ended. Raises Refused."""
        name = model_in(await small_body(request.receive, self._seconds))
        answer = await scheduler.unload(name, allowed=caller.allowed)
        if not answer["instances"]:
            raise Refused("invalid_request", "model is not running")
        await self._notes.note("unloaded", name, caller, request)
        return SUCCESS
