"""The reader of event logs that judges the chaos test: it sees what it is there to see."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.core.decisions import (
    AskExit,
    Decision,
    Drain,
    Grant,
    Kill,
    Reason,
    Reject,
    Start,
    Undrain,
    Wake,
)
from scheduler.core.events import (
    Abandoned,
    Cancelled,
    Event,
    Exited,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
    SleepingReported,
    Ticked,
)
from scheduler.core.values import Code, Config, Kind, PresetSpec, Refusal
from scheduler.runtime.event_log import Header, encode_gap, encode_header, encode_step, part_name
from tests.e2e.chaos.rules import Life

A = PresetSpec("a", parallel=2)
B = PresetSpec("b", parallel=1)
PINNED = PresetSpec("a", parallel=2, pinned=True)

Told = tuple[Event, list[Decision]]
ASKED: Told = (Requested(1, "a", 0.0), [Start(1, A, Reason.REQUESTED)])
SERVED: Told = (ReadyReported(1), [Grant(1, 1)])
WELL: list[Told] = [
    (PresetsChanged((A, B)), []),
    ASKED,
    (Requested(2, "a", 0.0), []),
    (ReadyReported(1), [Grant(1, 1), Grant(2, 1)]),
    (Requested(3, "b", 0.0), []),
    (Ticked(), [Drain(1, Reason.EVICTED, "b")]),
    (Released(1), []),
    (Abandoned(2), [AskExit(1, Reason.EVICTED, "b")]),
    (Exited(1), [Start(2, B, Reason.REQUESTED)]),
    (ReadyReported(2), [Grant(3, 2)]),
    (Requested(4, "b", 0.0), [Reject(4, Refusal(Code.QUEUE_FULL))]),
    (Cancelled(3), []),
]


def life_of(folder: Path, steps: list[Told], *, lost: int = 0) -> Life:
    lines = [encode_header(Header("x", 1, "", 0.0, Config(models_max=1)))]
    lines += [encode_step(now, event, decided) for now, (event, decided) in enumerate(steps)]
    path = folder / part_name("x", 1)
    path.write_bytes(b"".join(lines) + (encode_gap(lost) if lost else b""))
    life = Life(path)
    life.check()
    return life


def test_what_is_right_breaks_no_rule(tmp_path: Path) -> None:
    life = life_of(tmp_path, WELL)

    assert life.broken == []
    assert life.decided["Grant"] == 3
    assert life.longest_wait == 10


@pytest.mark.parametrize(
    ("steps", "rule"),
    [
        ([ASKED, (Requested(2, "b", 0.0), [Start(2, B, Reason.REQUESTED)])], "2 instances, of 1"),
        ([ASKED, (Ticked(), [Start(2, A, Reason.REQUESTED)])], "a second instance of a"),
        ([ASKED, (Ticked(), [Grant(1, 1)])], "granted instance 1"),
        ([ASKED, (Exited(1), [Grant(1, 1)])], "which is gone"),
        ([ASKED, SERVED, (SleepingReported(1), []), SERVED], "granted and does not wait"),
        (
            [ASKED, (ReadyReported(1), [Drain(1, Reason.EVICTED, "b"), Grant(1, 1)])],
            "granted instance 1",
        ),
        (
            [
                ASKED,
                (Requested(2, "a", 0.0), []),
                (Requested(3, "a", 0.0), []),
                (ReadyReported(1), [Grant(1, 1), Grant(2, 1), Grant(3, 1)]),
            ],
            "3 leases, of 2",
        ),
        ([ASKED, SERVED, (Ticked(), [AskExit(1, Reason.EVICTED, "b")])], "while it answers"),
        ([ASKED, SERVED, (Ticked(), [Kill(1, Reason.UNWANTED, "b")])], "while it answers"),
        (
            [
                (PresetsChanged((PINNED,)), []),
                ASKED,
                SERVED,
                (Released(1), [AskExit(1, Reason.IDLE)]),
            ],
            "is pinned",
        ),
        (
            [
                ASKED,
                (Cancelled(1), [AskExit(1, Reason.EVICTED, "b")]),
                (Ticked(), [Undrain(1, Reason.NO_LONGER_NEEDED)]),
            ],
            "taken back",
        ),
        ([ASKED, (Cancelled(1), [Drain(1, Reason.EVICTED)]), (Ticked(), [Wake(1)])], "is woken"),
        ([(Ticked(), [Reject(9, Refusal(Code.QUEUE_FULL))])], "refused and does not wait"),
    ],
)
def test_each_broken_rule_is_named(tmp_path: Path, steps: list[Told], rule: str) -> None:
    assert any(rule in broken for broken in life_of(tmp_path, steps).broken)


def test_a_look_and_a_load_take_no_slot(tmp_path: Path) -> None:
    steps = [
        ASKED,
        (Requested(2, "a", 0.0, Kind.LOAD), []),
        (Requested(3, "a", 0.0, Kind.GET), []),
        (Requested(4, "a", 0.0), []),
        (ReadyReported(1), [Grant(request, 1) for request in (1, 2, 3, 4)]),
    ]

    assert life_of(tmp_path, steps).broken == []


def test_steps_that_are_missing_are_named(tmp_path: Path) -> None:
    assert "7 steps are missing" in life_of(tmp_path, WELL, lost=7).broken[0]
