"""POST /models/load and /models/unload, as llama.cpp's router has them.

Any key may load, as any request would; to unload takes the model from everybody, so it needs an
admin key. Where no key is asked for, neither needs one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from proxy.conf import ProxyConfig
from proxy.headers import RawHeaders
from proxy.model_changes import model_in, small_body
from proxy.watch import Receive
from scheduler.client import SchedulerClient
from scheduler.protocol import Refused

SUCCESS = {"success": True}


class ModelLoading:
    def __init__(
        self, config: ProxyConfig, admin: Callable[[RawHeaders], Awaitable[object]]
    ) -> None:
        """`admin` raises Refused for whom the headers do not make one."""
        self._seconds = config.body_timeout_seconds
        self._open = config.no_auth
        self._admin = admin

    async def load(self, scheduler: SchedulerClient, receive: Receive) -> dict[str, bool]:
        """It is queued, and waits its turn like a request. Raises Refused."""
        name = model_in(await small_body(receive, self._seconds))
        answer = await scheduler.load(name)
        if "instance" in answer:
            raise Refused("invalid_request", "model is already running")
        return SUCCESS

    async def unload(
        self, scheduler: SchedulerClient, headers: RawHeaders, receive: Receive
    ) -> dict[str, bool]:
        """It goes when its answers are over; a load under way is ended. Raises Refused."""
        if not self._open:
            await self._admin(headers)
        name = model_in(await small_body(receive, self._seconds))
        answer = await scheduler.unload(name)
        if not answer["instances"]:
            raise Refused("invalid_request", "model is not running")
        return SUCCESS
