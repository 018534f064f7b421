"""The meters of a process's requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from proxy.callers import Caller
from proxy.carriage import Request
from proxy.conf import ProxyConfig
from proxy.content.capture import Capture
from proxy.content.redacting import redactor
from proxy.endpoints import METERED, Endpoint
from proxy.headers import trace_in
from proxy.usage.meter import Asking, Meter, nothing
from proxy.usage.open_records import OpenRecords
from proxy.usage.record import Record


class Meters:
    def __init__(
        self, write: Callable[[Record], None], open_records: OpenRecords, config: ProxyConfig
    ) -> None:
        self._write = write
        self._open_records = open_records
        self._redact = redactor(config.redacted)
        self._trusts_traces = config.trust_trace_context

    def of(
        self, endpoint: Endpoint, caller: Caller, request: Request, loop: asyncio.AbstractEventLoop
    ) -> Meter:
        client = dict(request.headers).get(b"user-agent", b"")
        trace = trace_in(request.headers) if self._trusts_traces else ""
        asking = Asking(request.id, endpoint.path, endpoint.dialect, caller, client, trace)
        if endpoint.kind not in METERED:
            return Meter(asking, nothing, loop)
        capture = Capture(self._redact) if caller.policy.keeps_content else None
        return Meter(asking, self._write, loop, capture, self._open_records)
