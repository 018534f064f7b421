"""Requests as OpenTelemetry has them: what a collector gets, and what it costs nobody."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator

import pytest

from proxy.headers import trace_in
from proxy.telemetry.noting import TelemetryNoting
from proxy.telemetry.operations import operation_of
from proxy.usage.record import Record
from scheduler.otlp import Telemetry
from scheduler.telemetry import METRICS, TRACES, ids_of, other_protocols, signals_wanted
from tests.support.otlp_stand_in import OtlpStandIn, Span, otlp_stand_in

from .asking import Exchange, chat
from .fakes import CRASH, Connection, Received

BOTH = frozenset({TRACES, METRICS})
AT = 1_800_000_000.0
ANSWERED = Record(
    record="a-0", request_id="mine", at=AT, team="blue", key="abcdefgh", asked="small",
    preset="alpha", instance=3, path="/v1/chat/completions", stream=True, status=200,
    read=9, cached=4, answered=3, queue_wait=2.0, load_wait=1.5, first_token=3.5, duration=5.5,
    granted=2.5, upstream=True, client="S3cret agent",
)  # fmt: skip
REFUSED = Record(
    record="b-0", request_id="b", at=AT, team="blue", asked="nothing-known", status=404,
    path="/v1/embeddings", code="model_not_found", duration=0.01,
)  # fmt: skip


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpStandIn]:
    with otlp_stand_in() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        yield running


async def told(*records: Record) -> None:
    noting = TelemetryNoting(BOTH)
    for record in records:
        noting.note(record)
    await noting.close()


def by_name(spans: list[Span]) -> dict[str, Span]:
    assert len({span.name for span in spans}) == len(spans)
    return {span.name: span for span in spans}


async def test_a_request_is_a_trace_of_its_waits_and_its_try(collector):
    await told(ANSWERED)

    spans = by_name(collector.spans())
    root = spans.pop("chat alpha")
    assert root.kind == 2  # of a server
    assert {name: (span.begin - AT, span.end - AT) for name, span in spans.items()} == {
        "queue": pytest.approx((0.5, 2.5), abs=1e-4),
        "load": pytest.approx((1.0, 2.5), abs=1e-4),
        "attempt": pytest.approx((2.5, 5.5), abs=1e-4),
    }
    assert (root.begin - AT, root.end - AT) == pytest.approx((0.0, 5.5), abs=1e-4)
    assert {(span.trace, span.parent) for span in spans.values()} == {(root.trace, root.id)}
    assert root.parent == ""
    assert not any(span.failed for span in (root, *spans.values()))


async def test_it_says_what_the_conventions_say_and_whose_it_was(collector):
    await told(ANSWERED)

    root = by_name(collector.spans())["chat alpha"]
    assert root.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "llama_cpp",
        "gen_ai.request.model": "small",
        "gen_ai.response.model": "alpha",
        "gen_ai.request.stream": True,
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.response.time_to_first_chunk": 3.5,
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "corral.request_id": "mine",
        "corral.team": "blue",
        "corral.key": "abcdefgh",
    }
    assert root.resource["service.name"] == "corral"
    assert root.resource["corral.process"] == "web"


async def test_its_trace_is_found_by_its_id(collector):
    await told(ANSWERED)

    trace, span = ids_of("blue", "mine")
    root = by_name(collector.spans())["chat alpha"]
    assert (root.trace, root.id) == (f"{trace:032x}", f"{span:016x}")


async def test_each_try_is_told_with_why_it_failed(collector):
    failed = Record(
        record="a-0", request_id="mine", at=AT, team="blue", asked="alpha", preset="alpha",
        instance=2, path="/v1/chat/completions", status=502, code="model_died", final=False,
        queue_wait=0.1, duration=0.5, granted=0.1,
    )  # fmt: skip
    await told(failed, ANSWERED)

    attempts = [span for span in collector.spans() if span.name == "attempt"]
    assert [(a.failed, a.attributes.get("error.type")) for a in attempts] == [
        (True, "model_died"),
        (False, None),
    ]
    assert [a.attributes["corral.instance"] for a in attempts] == [2, 3]
    assert len({a.trace for a in attempts}) == 1


async def test_a_refusal_has_its_code_and_is_no_error_of_the_servers(collector):
    await told(REFUSED)

    [span] = collector.spans()
    assert span.name == "embeddings nothing-known"
    assert span.attributes["error.type"] == "model_not_found"
    assert not span.failed


async def test_figures_have_the_conventions_names_and_no_clients_words(collector):
    await told(ANSWERED, REFUSED)

    found = collector.metrics()
    assert set(found) == {
        "gen_ai.server.request.duration",
        "gen_ai.server.time_to_first_token",
        "gen_ai.server.time_per_output_token",
        "gen_ai.client.token.usage",
    }
    [per_token] = found["gen_ai.server.time_per_output_token"]
    assert per_token["sum"] == pytest.approx(1.0)
    kinds = {
        point["gen_ai.token.type"]: point["sum"] for point in found["gen_ai.client.token.usage"]
    }
    assert kinds == {"input": 9, "output": 3}
    assert {p["gen_ai.request.model"] for p in found["gen_ai.server.request.duration"]} == {
        "alpha",
        "",
    }


async def test_nothing_of_headers_is_sent(collector):
    await told(ANSWERED)

    assert not any(b"S3cret" in body for body in collector.bodies)


async def test_the_environment_says_how_much_is_sent_and_by_what_name(collector, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "our-gateway")
    await told(ANSWERED)

    assert collector.spans() == []
    assert collector.metrics()


async def test_a_clients_trace_is_the_requests_own_where_it_is_believed(collector):
    theirs = f"00-{'a' * 32}-{'b' * 16}-01"
    believed = Record(**{**_fields(ANSWERED), "trace": theirs})
    unsampled = Record(**{**_fields(REFUSED), "trace": theirs[:-1] + "0"})
    await told(believed, unsampled)

    spans = by_name(collector.spans())
    assert {span.trace for span in spans.values()} == {"a" * 32}
    assert spans["chat alpha"].parent == "b" * 16


async def test_a_collector_that_is_away_is_told_of_once(monkeypatch, caplog):
    with otlp_stand_in() as gone:
        pass
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", gone.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    telemetry = Telemetry("web", {TRACES})
    with caplog.at_level(logging.INFO, logger="scheduler.otlp"):
        for _ in range(2):
            telemetry.tracer.start_span("a span").end()
            await asyncio.to_thread(telemetry.flush)
    telemetry.close()

    [said] = [r.getMessage() for r in caplog.records if r.name == "scheduler.otlp"]
    assert gone.url in said


async def test_one_that_does_not_answer_holds_up_no_end(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        noting = TelemetryNoting(frozenset({TRACES}))
        noting.note(ANSWERED)
        async with asyncio.timeout(8):  # the exporter itself waits for ten seconds
            await noting.close()


async def test_what_is_refused_is_said_once_and_again_when_it_is_taken(collector, caplog):
    with caplog.at_level(logging.INFO, logger="scheduler.otlp"):
        telemetry = Telemetry("web", {TRACES})
        for status in (400, 400, 200):
            collector.status = status
            telemetry.tracer.start_span("a span").end()
            await asyncio.to_thread(telemetry.flush)
        telemetry.close()

    said = [r.getMessage() for r in caplog.records if r.name == "scheduler.otlp"]
    assert len(said) == 2
    assert "are not taken" in said[0]
    assert "taken again" in said[1]


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, set()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, BOTH),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, {TRACES}),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "none"},
            {TRACES},
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, set()),
    ],
)
def test_what_is_wanted_is_said_by_the_standards_variables(environment, wanted):
    assert signals_wanted(environment) == wanted


def test_another_protocol_is_named():
    assert other_protocols({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}) == [
        "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
    ]
    assert other_protocols({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}) == []


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        ("/v1/chat/completions", "chat"),
        ("/v1/completions", "text_completion"),
        ("/v1/messages", "chat"),
        ("/v1/messages/count_tokens", "count_tokens"),
        ("/api/generate", "text_completion"),
        ("/v1/embeddings", "embeddings"),
        ("/v1/rerank", "rerank"),
        ("/v1/audio/transcriptions", "transcriptions"),
    ],
)
def test_operations_have_the_conventions_words(path, operation):
    assert operation_of(path) == operation


# On a request's way -------------------------------------------------------------------------

THEIRS = f"00-{'a' * 32}-{'b' * 16}-01".encode()


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b'{"usage": {"prompt_tokens": 9, "completion_tokens": 2}}')


async def dies(received: Received, child: Connection) -> None:
    """Without a word."""


@pytest.mark.parametrize(("trusted", "kept"), [(False, ""), (True, THEIRS.decode())])
async def test_a_clients_trace_is_believed_only_where_that_is_set(house, trusted, kept):
    async with house(answers, trust_trace_context=trusted) as h:
        await Exchange(h.app, body=chat(), headers=[(b"traceparent", THEIRS)]).end()

    assert [record.trace for record in h.usage.records] == [kept]
    assert h.child.received[0].header("traceparent") is None


async def test_each_try_knows_when_it_had_its_slot(house):
    async with house(dies, answers) as h:
        h.scheduler.endings.append(CRASH)
        await Exchange(h.app, body=chat()).end()

    first, last = h.usage.records
    assert 0 <= first.granted <= first.duration <= last.granted <= last.duration


async def test_who_never_had_one_says_so(house):
    async with house(answers) as h:
        await Exchange(h.app, body=b"no JSON").end()

    assert [record.granted for record in h.usage.records] == [None]


@pytest.mark.parametrize(
    "value", [b"", b"00-a-b-01", b"01" + THEIRS[2:], THEIRS + b"-more", THEIRS.upper()]
)
def test_a_trace_that_cannot_be_read_is_none(value):
    assert trace_in([(b"traceparent", value)]) == ""
    assert trace_in([(b"traceparent", THEIRS), (b"traceparent", THEIRS)]) == ""


def _fields(record: Record) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__struct_fields__}
