"""A stand-in for an OpenTelemetry collector: takes OTLP over HTTP on loopback, and keeps it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


class OtlpStandIn:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.status = 200
        """What it answers."""
        self.bodies: list[bytes] = []
        """As they came."""
        self.paths: list[str] = []

    def spans(self) -> list[Span]:
        return [
            Span(each, dict(_values(resource.resource.attributes)))
            for message in self._messages("/v1/traces")
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for each in scope.spans
        ]

    def metrics(self) -> dict[str, list[dict[str, Any]]]:
        """The attributes of each point of each histogram, with its count and its sum."""
        found: dict[str, list[dict[str, Any]]] = {}
        for message in self._messages("/v1/metrics"):
            for resource in message.resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        found.setdefault(metric.name, []).extend(
                            {**dict(_values(p.attributes)), "count": p.count, "sum": p.sum}
                            for p in metric.histogram.data_points
                        )
        return found

    def _messages(self, path: str) -> Iterator[Any]:
        for at, body in zip(self.paths, self.bodies, strict=True):
            if at == path:
                yield KINDS[path].FromString(body)


class Span:
    def __init__(self, sent: Any, resource: dict[str, Any]) -> None:
        self.name: str = sent.name
        self.kind: int = sent.kind
        self.trace = sent.trace_id.hex()
        self.id = sent.span_id.hex()
        self.parent = sent.parent_span_id.hex()
        self.begin, self.end = sent.start_time_unix_nano / 1e9, sent.end_time_unix_nano / 1e9
        self.attributes: dict[str, Any] = dict(_values(sent.attributes))
        self.links = {link.trace_id.hex() for link in sent.links}
        self.failed = sent.status.code == 2
        self.resource = resource


def _values(attributes: Any) -> Iterator[tuple[str, Any]]:
    for each in attributes:
        kind = each.value.WhichOneof("value")
        if kind == "array_value":
            yield each.key, [value.string_value for value in each.value.array_value.values]
        else:
            yield each.key, getattr(each.value, kind)


@contextmanager
def otlp_stand_in() -> Iterator[OtlpStandIn]:
    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.paths.append(self.path)
            collector.bodies.append(body)
            self.send_response(collector.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Not on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Taking) as server:
        collector = OtlpStandIn(server.server_port)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="collector")
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
