"""Each load of an instance as a span of OpenTelemetry, with those who waited for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode, TraceFlags

from scheduler.core.values import InstanceId
from scheduler.otlp import Telemetry
from scheduler.telemetry import ids_of

from .record import Entry, Gone, Loaded, Record, Started

MOST_LINKED = 20
Waiter = tuple[str, str]
"""Of a request: its team, and what its client knows it by."""


@dataclass(frozen=True, slots=True)
class _Loading:
    preset: str
    since: datetime
    waiters: Sequence[Waiter]


class LoadSpans:
    """Called as the record is; in the owner's turn."""

    def __init__(
        self,
        record: Record,
        telemetry: Telemetry,
        waiters: Callable[[str], Sequence[Waiter]],
        *,
        linked: bool = True,
    ) -> None:
        """`waiters` of a preset. `linked`: their traces are those that their ids make; where
        clients say of what trace they are, the ids stand among the attributes alone."""
        self._record = record
        self._telemetry = telemetry
        self._waiters = waiters
        self._linked = linked
        self._loading: dict[InstanceId, _Loading] = {}

    def __call__(self, entry: Entry) -> None:
        match entry:
            case Started(instance=instance, preset=preset, at=at):
                waiters = self._waiters(preset)[:MOST_LINKED]
                self._loading[instance] = _Loading(preset, at, waiters)
            case Loaded(instance=instance, at=at):
                self._over(instance, at, "")
            case Gone(instance=instance, reason=reason, at=at):
                self._over(instance, at, reason)
        self._record(entry)

    def _over(self, instance: InstanceId, at: datetime, failure: str) -> None:
        loading = self._loading.pop(instance, None)
        if loading is None:  # it had loaded before
            return
        span = self._begun(instance, loading)
        if failure:
            span.set_attribute("error.type", failure)
            span.set_status(Status(StatusCode.ERROR))
        span.end(_nanoseconds(at))

    def _begun(self, instance: InstanceId, loading: _Loading) -> Span:
        return self._telemetry.tracer.start_span(
            f"load {loading.preset}",
            context=Context(),
            attributes={
                "corral.model": loading.preset,
                "corral.instance": int(instance),
                "corral.request_ids": [request for _, request in loading.waiters],
            },
            links=[_link_to(waiter) for waiter in loading.waiters] if self._linked else (),
            start_time=_nanoseconds(loading.since),
        )


def _link_to(waiter: Waiter) -> Link:
    trace, span = ids_of(*waiter)
    return Link(SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(1)))


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1e9)
