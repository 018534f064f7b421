"""The sending itself: OpenTelemetry's SDK with its exporters over HTTP, in threads of their own.

A place that is away or slow costs what is to be sent, never a request: queues are bounded, and that
it is away is said once.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Collection, Sequence

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import Meter, NoOpMeter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NoOpTracer, Tracer

from scheduler.telemetry import METRICS, TRACES

logger = logging.getLogger(__name__)

SCOPE = "corral"
CLOSE_SECONDS = 1.0
"""What is not sent so long after the end is not sent: nobody waits for a place that is away."""


class GivenIds(RandomIdGenerator):
    """`given` are the ids of the next span that begins a trace; a thread's own affair."""

    given: tuple[int, int] | None = None

    def generate_trace_id(self) -> int:
        return super().generate_trace_id() if self.given is None else self.given[0]

    def generate_span_id(self) -> int:
        if self.given is None:
            return super().generate_span_id()
        (_, span), self.given = self.given, None
        return span


class Telemetry:
    """`tracer` and `meter` do nothing for a signal that is not wanted."""

    def __init__(self, process: str, signals: Collection[str]) -> None:
        self.ids = GivenIds()
        self.tracer: Tracer = NoOpTracer()
        self.meter: Meter = NoOpMeter(SCOPE)
        self._flushes: list[Callable[[], object]] = []
        self._closings: list[Callable[[], object]] = []
        resource = _resource(process)
        if TRACES in signals:
            spans = TracerProvider(resource=resource, id_generator=self.ids, shutdown_on_exit=False)
            spans.add_span_processor(BatchSpanProcessor(_Spans()))
            self.tracer = spans.get_tracer(SCOPE)
            self._flushes.append(spans.force_flush)
            self._closings.append(spans.shutdown)
        if METRICS in signals:
            reader = PeriodicExportingMetricReader(_Figures())
            figures = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
            self.meter = figures.get_meter(SCOPE)
            self._flushes.append(figures.force_flush)
            self._closings.append(figures.shutdown)

    def flush(self) -> None:
        """Send what there is now. It waits for the answers."""
        for flush in self._flushes:
            flush()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Send what there is, within so long. It waits: for a thread, or for a process's end."""
        threads = [
            threading.Thread(target=closing, name="telemetry", daemon=True)
            for closing in self._closings
        ]
        self._closings = []
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds)


def _resource(process: str) -> Resource:
    """What the environment says of this service comes first."""
    said = Resource.create({SERVICE_INSTANCE_ID: str(uuid.uuid4()), "corral.process": process})
    if str(said.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        return said.merge(Resource({SERVICE_NAME: "corral"}))
    return said


class _Deliveries:
    """Says when they begin to fail, and when they are taken again."""

    def __init__(self, what: str, where: str) -> None:
        self._what = what
        self._where = where
        self._failing = False

    def tell(self, *, taken: bool) -> None:
        if taken and self._failing:
            logger.info("%s are taken again by %s", self._what, self._where)
        elif not taken and not self._failing:
            logger.warning(
                "%s are not taken by %s: they are dropped until they are, and this is said once",
                self._what,
                self._where,
            )
        self._failing = not taken


class _Spans(OTLPSpanExporter):
    def __init__(self) -> None:
        super().__init__()
        self._deliveries = _Deliveries("traces", self._endpoint)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        self._deliveries.tell(taken=result is SpanExportResult.SUCCESS)
        return result


class _Figures(OTLPMetricExporter):
    def __init__(self) -> None:
        super().__init__()
        self._deliveries = _Deliveries("metrics", self._endpoint)

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **kwargs: object
    ) -> MetricExportResult:
        result = super().export(metrics_data, timeout_millis, **kwargs)
        self._deliveries.tell(taken=result is MetricExportResult.SUCCESS)
        return result
