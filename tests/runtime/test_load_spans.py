"""Each load is a span that names those who waited for it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from scheduler.core.values import Exit, InstanceId
from scheduler.otlp import Telemetry
from scheduler.runtime.load_spans import LoadSpans
from scheduler.runtime.record import Entry, Gone, Loaded, Started
from scheduler.telemetry import TRACES, ids_of
from tests.support.otlp_stand_in import OtlpStandIn, Span, otlp_stand_in

AT = datetime(2026, 1, 1, tzinfo=UTC)
LATER = AT + timedelta(seconds=2)
ONE = InstanceId(1)
STARTED = Started(ONE, "alpha", 1, at=AT)
LOADED = Loaded(ONE, 7, (), at=LATER)
GONE = Gone(ONE, 7, (), "failed_to_load", Exit(), at=LATER)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpStandIn]:
    with otlp_stand_in() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        yield running


def told(collector: OtlpStandIn, *entries: Entry, linked: bool = True) -> list[Span]:
    telemetry, recorded = Telemetry("scheduler", {TRACES}), []
    waiters = {"alpha": [("blue", "mine"), ("red", "theirs")]}
    record = LoadSpans(recorded.append, telemetry, waiters.__getitem__, linked=linked)
    for entry in entries:
        record(entry)
    telemetry.close(10.0)
    assert recorded == [*entries]
    return collector.spans()


def test_a_load_lasts_from_its_start_until_it_answers(collector):
    [span] = told(collector, STARTED, LOADED, LOADED, GONE)

    assert span.name == "load alpha"
    assert (span.begin, span.end) == pytest.approx((AT.timestamp(), LATER.timestamp()))
    assert not span.failed
    assert span.resource["corral.process"] == "scheduler"


def test_it_is_linked_to_the_traces_of_those_who_wait(collector):
    [span] = told(collector, STARTED, LOADED)

    traces = {f"{ids_of(*waiter)[0]:032x}" for waiter in (("blue", "mine"), ("red", "theirs"))}
    assert span.links == traces
    assert span.attributes["corral.request_ids"] == ["mine", "theirs"]


def test_where_clients_say_of_what_trace_they_are_their_ids_alone_are_named(collector):
    [span] = told(collector, STARTED, LOADED, linked=False)

    assert span.links == set()
    assert span.attributes["corral.request_ids"] == ["mine", "theirs"]


def test_a_load_that_failed_says_why(collector):
    [span] = told(collector, STARTED, GONE)

    assert span.failed
    assert span.attributes["error.type"] == "failed_to_load"
