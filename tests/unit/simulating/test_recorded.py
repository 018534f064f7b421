from __future__ import annotations

import pytest

from scheduler.core.decisions import AskExit, Grant, Reason, Start
from scheduler.core.events import (
    Cancelled,
    Exited,
    ReadyReported,
    Released,
    Requested,
    Ticked,
)
from scheduler.core.values import InstanceId, Kind, PresetName, PresetSpec, RequestId, TenantId
from scheduler.simulating.recorded import NothingRecorded, recorded_trace

A, B = PresetName("a"), PresetName("b")
SPECS = (PresetSpec(A, parallel=2), PresetSpec(B))
ONE = InstanceId(1)


def asked(number: int, preset: PresetName = A, **more) -> Requested:
    return Requested(RequestId(number), preset, 0.0, **more)


def trace_of(*told, presets=SPECS):
    return recorded_trace("log", presets, told, places=3)


def only(trace):
    (arrival,) = trace.arrivals()
    return arrival


def test_an_answer_lasts_as_long_as_its_lease_was_held():
    trace = trace_of(
        (100.0, asked(1), [Start(ONE, SPECS[0], Reason.REQUESTED)]),
        (112.0, ReadyReported(ONE), [Grant(RequestId(1), ONE)]),
        (115.5, Released(RequestId(1), 70), []),
    )

    arrival = only(trace)
    assert (arrival.at, arrival.preset, arrival.seconds, arrival.answered) == (0.0, A, 3.5, 70)


def test_loads_and_exits_last_as_long_as_they_did():
    trace = trace_of(
        (100.0, asked(1), [Start(ONE, SPECS[0], Reason.REQUESTED)]),
        (112.0, ReadyReported(ONE), [Grant(RequestId(1), ONE)]),
        (113.0, Released(RequestId(1)), [AskExit(ONE, Reason.IDLE)]),
        (115.0, Exited(ONE), []),
    )

    model = next(model for model in trace.models if model.spec.name == A)
    assert (model.load_seconds, model.exit_seconds) == (12.0, 2.0)


def test_who_left_while_waiting_has_that_patience():
    trace = trace_of((10.0, asked(1), []), (14.0, Cancelled(RequestId(1)), []))

    assert only(trace).patience == 4.0


def test_who_left_with_its_lease_was_answered_until_then():
    trace = trace_of(
        (10.0, asked(1), [Grant(RequestId(1), ONE)]), (14.0, Cancelled(RequestId(1)), [])
    )

    assert (only(trace).patience, only(trace).seconds) == (float("inf"), 4.0)


def test_one_that_has_no_end_in_the_log_lasts_as_long_as_the_others():
    trace = trace_of(
        (10.0, asked(1), [Grant(RequestId(1), ONE)]),
        (16.0, Released(RequestId(1)), []),
        (20.0, asked(2), []),
    )

    assert [arrival.seconds for arrival in trace.arrivals()] == [6.0, 6.0]


def test_looks_and_loads_of_a_person_are_no_requests():
    with pytest.raises(NothingRecorded):
        trace_of((1.0, asked(1, kind=Kind.GET), []), (2.0, asked(2, kind=Kind.LOAD), []))


def test_a_retry_is_not_counted_twice():
    trace = trace_of((1.0, asked(1), []), (2.0, asked(1), []))

    assert only(trace).at == 0.0


def test_an_end_of_what_the_log_does_not_know_says_nothing():
    trace = trace_of((1.0, Released(RequestId(9), 5), []), (2.0, asked(1), []), (3.0, Ticked(), []))

    assert only(trace).answered == 0


def test_the_most_asked_for_comes_first():
    trace = trace_of(*[(float(n), asked(n, B if n > 1 else A), []) for n in (1, 2, 3)])

    assert [spec.name for spec in trace.specs] == [B, A]


def test_tenants_have_the_weight_that_they_had_last():
    team = TenantId("team")
    trace = trace_of(
        (1.0, asked(1, tenant=team, weight=1.0), []), (2.0, asked(2, tenant=team, weight=3.0), [])
    )

    assert [(tenant.name, tenant.weight) for tenant in trace.tenants] == [(team, 3.0)]
