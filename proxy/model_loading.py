"""POST /models/load and /models/unload, as llama.cpp's router has them.

Both take the scope `load`, and only what the key may use. An answer is never cut for an unload.
"""

from __future__ import annotations

from proxy.callers import Caller
from proxy.conf import ProxyConfig
from proxy.model_changes import model_in, small_body
from proxy.watch import Receive
from scheduler.client import SchedulerClient
from scheduler.protocol import Refused

SUCCESS = {"success": True}


class ModelLoading:
    def __init__(self, config: ProxyConfig) -> None:
        self._seconds = config.body_timeout_seconds

    async def load(
        self, scheduler: SchedulerClient, caller: Caller, receive: Receive
    ) -> dict[str, bool]:
        """It is queued, and waits its turn like a request. Raises Refused."""
        name = model_in(await small_body(receive, self._seconds))
        answer = await scheduler.load(name, allowed=caller.allowed)
        if "instance" in answer:
            raise Refused("invalid_request", "model is already running")
        return SUCCESS

    async def unload(
        self, scheduler: SchedulerClient, caller: Caller, receive: Receive
    ) -> dict[str, bool]:
        """It goes when its answers are over; a load under way is ended. Raises Refused."""
        name = model_in(await small_body(receive, self._seconds))
        answer = await scheduler.unload(name, allowed=caller.allowed)
        if not answer["instances"]:
            raise Refused("invalid_request", "model is not running")
        return SUCCESS
