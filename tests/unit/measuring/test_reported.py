"""What an engine with a `measure` role may say of itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.measuring.figures import DeviceFigures
from scheduler.measuring.reported import is_ready, reported_figures


def line(state: str, payload: Any) -> str:
    return "cmd_child_to_router:state:" + json.dumps({"state": state, "payload": payload})


def device(**fields: Any) -> dict[str, Any]:
    return {"name": "CUDA0", "model": 3, "context": 2, "compute": 1, **fields}


def test_the_smallest_context_counts() -> None:
    payload = {"min": {"devices": [device()]}, "max": {"devices": [device(context=900)]}}

    assert reported_figures(line("measuring", payload)) == (
        DeviceFigures("CUDA0", 3, 2, 1, weights=3),
    )


@pytest.mark.parametrize(
    "payload",
    [
        None,
        {},
        [],
        {"min": {"devices": []}},
        {"min": {"devices": [device(model=-1)]}},
        {"min": {"devices": [device(model=1 << 60)]}},
        {"min": {"devices": [device(model="much")]}},
        {"min": {"devices": [device(name="")]}},
        {"min": {"devices": [device(), device()]}},
    ],
)
def test_a_payload_that_is_no_figures_is_not_believed(payload: Any) -> None:
    assert reported_figures(line("measuring", payload)) == ()


def test_another_state_reports_nothing() -> None:
    assert reported_figures(line("loading", {"min": {"devices": [device()]}})) == ()


@given(st.text(max_size=100))
def test_no_line_is_too_odd(text: str) -> None:
    assert reported_figures(f"cmd_child_to_router:state:{text}") == ()
    assert not is_ready(f"cmd_child_to_router:state:{text}")


def test_ready_is_seen() -> None:
    assert is_ready(line("ready", {"meta": {}}))
