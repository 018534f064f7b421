"""`manage.py replay`: what it prints, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from scheduler.core.decisions import Decision
from scheduler.core.events import (
    Event,
    Exited,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
    Ticked,
    UnloadAsked,
)
from scheduler.core.planner import Planner
from scheduler.core.values import Config, Exit, InstanceId, PresetName, PresetSpec, RequestId
from scheduler.management.commands.replay import summary, text
from scheduler.runtime.event_log import Header, encode_gap, encode_header, encode_step, part_name
from scheduler.runtime.replay import replay

LIFE = "20260101T000000Z-abcdef"
A = PresetName("a")
EVENTS: Sequence[tuple[float, Event]] = [
    (1.0, PresetsChanged((PresetSpec(A),))),
    (2.0, Requested(RequestId(1), A, 1.5)),
    (4.0, ReadyReported(InstanceId(1))),
    (5.0, Requested(RequestId(2), A, 5.0)),
    (6.0, Released(RequestId(1), 12)),
    (7.0, Exited(InstanceId(1), Exit(code=1, words="what a client wrote"))),
    (8.0, Ticked()),
]


def recorded(folder: Path) -> list[bytes]:
    """The lines of a life as a scheduler writes them."""
    config = Config(models_max=1)
    planner = Planner(config)
    lines = [encode_header(Header(LIFE, 1, "2026-01-01T00:00:00+00:00", 0.5, config))]
    for now, event in EVENTS:
        decisions: Sequence[Decision] = planner.handle(event, now)
        lines.append(encode_step(now, event, decisions))
    return lines


def part(folder: Path, lines: Sequence[bytes], number: int = 1) -> Path:
    path = folder / part_name(LIFE, number)
    path.write_bytes(b"".join(lines))
    return path


def replayed(path: Path, **options: Any) -> str:
    out = StringIO()
    call_command("replay", str(path), stdout=out, **options)
    return out.getvalue()


def refused(path: Path, **options: Any) -> tuple[int, str, str]:
    out = StringIO()
    with pytest.raises(CommandError) as refusal:
        call_command("replay", str(path), stdout=out, **options)
    return refusal.value.returncode, str(refusal.value), out.getvalue()


def test_a_life_decided_the_same_again_is_summed_up(tmp_path: Path) -> None:
    told = replayed(part(tmp_path, recorded(tmp_path)))

    assert "7.500 s replayed" in told
    assert "2 Requested" in told
    assert "Start requested" in told
    assert "waits of 2 granted requests" in told
    assert "worst 2.500 s" in told
    assert "first difference" not in told


def test_it_stops_so_long_after_the_start_and_tells_what_was_then(tmp_path: Path) -> None:
    told = json.loads(replayed(part(tmp_path, recorded(tmp_path)), until=5.0, json=True))

    assert told["seconds"] == 4.5
    assert told["instances"] == [{"instance": 1, "preset": "a", "state": "loaded", "leases": 1}]
    assert [(entry["preset"], entry["waiters"]) for entry in told["queue"]] == [("a", 1)]
    assert told["difference"] is None


def test_the_first_decision_that_differs_is_shown_with_its_line(tmp_path: Path) -> None:
    lines = recorded(tmp_path)
    lines[3] = encode_step(4.0, ReadyReported(InstanceId(1)), [])

    code, words, told = refused(part(tmp_path, lines))

    assert (code, words) == (1, "the decisions differ")
    assert f"first difference: {part_name(LIFE, 1)}, line 4, 3.500000 s after the start" in told
    assert "recorded nothing" in told
    assert "decided  Grant(request=1, instance=1)" in told


class Fails(Planner):
    """It has a bug that an unload shows."""

    def handle(self, event: Event, now: float) -> list[Decision]:
        if isinstance(event, UnloadAsked):
            raise ValueError("a bug")
        return super().handle(event, now)


def test_an_event_that_the_core_fails_at_is_a_difference_with_its_failure(tmp_path: Path) -> None:
    lines = [*recorded(tmp_path), encode_step(9.0, UnloadAsked(A), [])]

    done = replay(part(tmp_path, lines), make_planner=Fails)

    assert done.difference is not None
    assert (done.difference.line, done.difference.failure) == (9, "ValueError: a bug")
    assert list(text(summary(done)))[-1] == "  decided  ValueError: a bug"


def test_where_steps_are_missing_it_ends(tmp_path: Path) -> None:
    lines = recorded(tmp_path)
    lines.insert(3, encode_gap(12))

    code, words, told = refused(part(tmp_path, lines))

    assert (code, words) == (2, "it cannot be replayed any further")
    assert "line 4: 12 steps are missing here" in told


def test_a_part_is_replayed_after_those_before_it(tmp_path: Path) -> None:
    lines = recorded(tmp_path)
    part(tmp_path, lines[:4])
    header = encode_header(Header(LIFE, 2, "", 4.0, Config(models_max=1), (PresetSpec(A),)))
    second = part(tmp_path, [header, *lines[4:]], 2)

    assert "7.500 s replayed" in replayed(second)

    (tmp_path / part_name(LIFE, 1)).unlink()
    code, words, _ = refused(second)
    assert code == 2
    assert "missing" in words


@pytest.mark.parametrize("text", [None, "", "hello\n"])
def test_what_is_no_event_log_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "log.jsonl"
    if text is not None:
        path.write_text(text)

    assert refused(path)[0] == 2
