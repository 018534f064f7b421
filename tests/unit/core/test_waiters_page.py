"""Who waits for a preset, a page at a time, in the order in which they will be served."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.events import Cancelled, PresetsChanged, Requested
from scheduler.core.planner import Planner
from scheduler.core.values import (
    Config,
    Kind,
    PresetName,
    PresetSpec,
    Priority,
    RequestId,
    TenantId,
)

A = PresetName("a")

asking = st.fixed_dictionaries(
    {
        "tenant": st.sampled_from(["", "blue", "green"]),
        "arrived": st.floats(-50, 0),
        "kind": st.sampled_from([Kind.POST, Kind.POST, Kind.WEBSOCKET, Kind.LOAD]),
        "priority": st.sampled_from(Priority),
        "leaves": st.booleans(),
    }
)


def waiting(asked: list[dict[str, Any]]) -> tuple[Planner, list[RequestId]]:
    """A planner whose one loader is busy with another preset, and who then waits for `a`."""
    planner = Planner(Config())
    planner.handle(PresetsChanged((PresetSpec(A), PresetSpec(PresetName("b")))), 0.0)
    planner.handle(Requested(RequestId(0), PresetName("b"), -100.0), 0.0)
    staying = []
    for number, one in enumerate(asked, start=1):
        request = RequestId(number)
        tenant, kind, priority = TenantId(one["tenant"]), one["kind"], one["priority"]
        planner.handle(Requested(request, A, one["arrived"], kind, tenant, 1.0, priority), 1.0)
        staying.append(request)
    for number, one in enumerate(asked, start=1):
        if one["leaves"]:
            planner.handle(Cancelled(RequestId(number)), 2.0)
            staying.remove(RequestId(number))
    return planner, staying


@given(st.lists(asking, max_size=40), st.integers(1, 7))
def test_the_pages_together_are_all_who_wait_each_once_and_where_they_are_explained_to_be(
    asked, limit
):
    planner, staying = waiting(asked)
    found = []
    for offset in range(0, len(asked) + limit, limit):
        count, page = planner.waiters(A, 3.0, offset=offset, limit=limit)
        assert count == len(staying)
        assert len(page) <= limit
        found += page

    assert sorted(told.request for told in found) == staying
    assert [told.position for told in found] == list(range(1, len(staying) + 1))
    assert found == [planner.explain(told.request, 3.0) for told in found]


def test_nobody_waits_for_what_nobody_asked_for():
    planner, _ = waiting([])

    assert planner.waiters(A, 3.0, offset=0, limit=10) == (0, [])
    assert planner.waiters(PresetName("nope"), 3.0, offset=0, limit=10) == (0, [])
