"""What an engine says before it reads weights: captured of a real one, at verbosity 5."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.sizes import DeviceId
from scheduler.measuring.dry_run import DryRun, DryRunLog, rows_of
from scheduler.measuring.figures import totals

CAPTURED = Path(__file__).resolve().parents[2] / "support" / "captured"
MIB = 1 << 20


def read(name: str, *, has_draft: bool = False) -> DryRun:
    log = DryRunLog(has_draft=has_draft)
    lines = (CAPTURED / f"fit-0.3.36-{name}.txt").read_text().splitlines()
    assert any(log.take(line) for line in lines)
    found = log.found()
    assert found is not None
    return found


def mib(sizes: object) -> dict[str, float]:
    return {device: round(size / MIB, 2) for device, size in dict(sizes).items()}


def test_buffers_are_known_to_a_hundredth_where_the_engine_says_them() -> None:
    found = read("projector-verbose")

    # The last one has the output buffer of 0.38 in it.
    assert mib(found.main.compute) == {"RPC0": 24.91, "RPC1": 29.41, "Host": 14.05}
    assert found.main.cache == 90 * MIB
    assert [device for device, _ in found.devices] == ["RPC0", "RPC1"]


def test_an_engine_that_prints_the_table_alone_is_known_to_the_mib() -> None:
    found = read("rpc-partial")

    assert mib(totals(rows_of(found))) == {"RPC0": 87, "Host": 151}
    assert (found.main.cache, found.draft, found.projector) == (None, None, {})


def test_a_projector_is_said_by_device() -> None:
    assert mib(read("projector-verbose").projector) == {"RPC0": 28.60, "Host": 0.58}


def test_a_draft_model_has_a_table_of_its_own() -> None:
    found = read("draft-verbose", has_draft=True)

    assert found.draft is not None
    assert mib(found.draft.compute) == {"RPC0": 10.04, "RPC1": 11.04, "Host": 9.68}
    assert found.draft.cache == 8 * MIB
    assert mib(found.main.weights) == {"RPC0": 21, "RPC1": 70, "Host": 28}


def test_figures_of_one_device_are_those_of_another_of_its_kind() -> None:
    one, other = DeviceId("RPC0"), DeviceId("RPC7")
    found = read("draft-verbose", has_draft=True).renamed({one: other})

    assert found.draft is not None
    for sizes in (found.main.weights, found.main.compute, found.draft.context):
        assert (one in sizes, other in sizes) == (False, True)


@pytest.mark.parametrize("name", ["broken"])
def test_without_a_table_there_is_nothing(name: str) -> None:
    log = DryRunLog()
    for line in (CAPTURED / f"fit-0.3.36-{name}.txt").read_text().splitlines():
        log.take(line)

    assert log.found() is None


@given(st.lists(st.text(max_size=200), max_size=20), st.booleans())
def test_no_line_is_too_odd(lines: list[str], has_draft: bool) -> None:
    log = DryRunLog(has_draft=has_draft)
    for line in lines:
        log.take(line)
    log.found()
