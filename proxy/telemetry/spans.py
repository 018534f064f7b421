"""A request that is over as a trace: itself, its waits, its tries.

All of it is made of the record of usage, which has the times, after the client has its answer; so
nothing of a prompt, of an answer, of headers is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry.context import Context
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.semconv.attributes.http_attributes import HTTP_RESPONSE_STATUS_CODE, HTTP_ROUTE
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from proxy.telemetry.operations import PROVIDER, operation_of
from proxy.usage.record import Record
from scheduler.telemetry import ids_of

if TYPE_CHECKING:
    from scheduler.otlp import Telemetry

LONGEST_NAME = 200
"""Characters of a model's name, as a client wrote it."""
SERVER_FAULT = 500
Attributes = dict[str, str | bool | int | float]


class Spans:
    """Of one thread."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._tracer = telemetry.tracer
        self._ids = telemetry.ids

    def tell(self, tries: Sequence[Record]) -> None:
        """All tries of one request, the last one last."""
        last = tries[-1]
        operation, model = operation_of(last.path), last.preset or last.asked[:LONGEST_NAME]
        self._ids.given = ids_of(last.team, last.request_id)
        if parent := _context_of(last.trace):
            self._ids.given = None
        root = self._tracer.start_span(
            f"{operation} {model}".rstrip(),
            context=parent or Context(),
            kind=SpanKind.SERVER,
            attributes=_attributes(last, operation),
            start_time=_nanoseconds(last, 0.0),
        )
        self._ids.given = None  # a sampler may have left the span out before it had its id
        if root.is_recording():
            within = set_span_in_context(root, Context())
            for record in tries:
                self._tell_of_try(record, within)
            _mark(root, last)
        root.end(_nanoseconds(last, last.duration))

    def _tell_of_try(self, record: Record, within: Context) -> None:
        over, granted = record.duration or 0.0, record.granted
        if record.queue_wait is not None:
            until = over if granted is None else granted
            with self._span("queue", record, within, until - record.queue_wait, until):
                pass
        if granted is None:
            return
        if record.load_wait:
            with self._span("load", record, within, granted - record.load_wait, granted):
                pass
        with self._span("attempt", record, within, granted, over, SpanKind.CLIENT) as attempt:
            attempt.set_attributes({"corral.attempt": record.attempt, **_of_instance(record)})
            _mark(attempt, record)

    @contextmanager
    def _span(
        self,
        name: str,
        record: Record,
        within: Context,
        begin: float,
        end: float,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Iterator[Span]:
        """`begin` and `end` in seconds since the request came."""
        start = _nanoseconds(record, max(0.0, begin))
        span = self._tracer.start_span(name, within, kind, start_time=start)
        yield span
        span.end(_nanoseconds(record, end))


def _attributes(record: Record, operation: str) -> Attributes:
    found: dict[str, str | bool | int | float | None] = {
        gen_ai.GEN_AI_OPERATION_NAME: operation,
        gen_ai.GEN_AI_PROVIDER_NAME: PROVIDER,
        gen_ai.GEN_AI_REQUEST_MODEL: record.asked[:LONGEST_NAME] or record.preset,
        gen_ai.GEN_AI_RESPONSE_MODEL: record.preset,
        gen_ai.GEN_AI_REQUEST_STREAM: record.stream,
        gen_ai.GEN_AI_USAGE_INPUT_TOKENS: record.read,
        gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS: record.answered,
        gen_ai.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: record.cached,
        gen_ai.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: record.first_token if record.stream else None,
        HTTP_ROUTE: record.path,
        HTTP_RESPONSE_STATUS_CODE: record.status,
        "corral.request_id": record.request_id,
        "corral.team": record.team,
        "corral.key": record.key,
        "corral.usage.estimated": record.estimated or None,
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _of_instance(record: Record) -> Attributes:
    instance = {} if record.instance is None else {"corral.instance": record.instance}
    return {gen_ai.GEN_AI_RESPONSE_MODEL: record.preset, **instance}


def _mark(span: Span, record: Record) -> None:
    """As the conventions for servers have it, what a client did wrong is no error of ours."""
    code = record.code or (str(record.status) if record.status >= 400 else "")
    if code:
        span.set_attribute(ERROR_TYPE, code)
    if record.status >= SERVER_FAULT or (record.code and record.status < 400):
        span.set_status(Status(StatusCode.ERROR))


def _nanoseconds(record: Record, after: float | None) -> int:
    return int((record.at + (after or 0.0)) * 1e9)


def _context_of(trace: str) -> Context | None:
    """What a client says that its request is a part of; empty: nothing, or nothing believed."""
    if not trace:
        return None
    _, trace_id, span_id, flags = trace.split("-")
    told = SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
    )
    return set_span_in_context(NonRecordingSpan(told), Context()) if told.is_valid else None
