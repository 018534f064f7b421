"""The event log: every event and every decision comes back as it was, to the last bit."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scheduler.runtime.event_log
from scheduler.core.decisions import Decision, Drain, Reason, Reject, Start, WakeAt
from scheduler.core.events import Event, Exited, PresetsChanged, Ticked
from scheduler.core.values import (
    Code,
    Config,
    Exit,
    InstanceId,
    PresetName,
    PresetSpec,
    Refusal,
    RequestId,
)
from scheduler.runtime.event_log import (
    CannotRead,
    Gap,
    Header,
    Step,
    encode_gap,
    encode_header,
    encode_step,
    part_name,
    read_event_log,
    read_life,
)

HEADER = Header("life", 1, "2026-01-01T00:00:00+00:00", 5.0, Config())
seconds = st.floats(allow_nan=False, allow_infinity=False)
wordless = st.builds(Exit, words=st.just(""))
refusals = st.builds(Refusal, retry_after_seconds=st.none() | seconds, exit=st.none() | wordless)
SPECIAL = {
    "arrived": seconds,
    "weight": seconds,
    "progress": st.none() | seconds,
    "seconds": seconds,
    "exit": wordless,
    "refusal": refusals,
    "figures": st.lists(st.tuples(st.text(), st.text() | st.integers() | seconds)).map(tuple),
}


def any_of(kind: type) -> st.SearchStrategy:
    return st.builds(kind, **{name: SPECIAL.get(name, ...) for name in kind.__dataclass_fields__})


def written(tmp_path: Path, *lines: bytes, part: int = 1, life: str = "life") -> Path:
    path = tmp_path / part_name(life, part)
    path.write_bytes(b"".join(lines))
    return path


def read_back(tmp_path: Path, *lines: bytes) -> list:
    return list(read_event_log(written(tmp_path, encode_header(HEADER), *lines)))[1:]


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_kind_of_event_comes_back_as_it_was(tmp_path_factory, kind, data):
    event, now = data.draw(any_of(kind)), data.draw(seconds)

    [step] = read_back(tmp_path_factory.mktemp("log"), encode_step(now, event, []))

    assert repr(step) == repr(Step(2, now, event, ()))


@pytest.mark.parametrize("kind", get_args(Decision), ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_kind_of_decision_comes_back_as_it_was(tmp_path_factory, kind, data):
    decision = data.draw(any_of(kind))

    [step] = read_back(tmp_path_factory.mktemp("log"), encode_step(1.5, Ticked(), [decision] * 2))

    assert repr(step.decisions) == repr((decision, decision))


def test_what_json_does_not_know_comes_back(tmp_path):
    endless = PresetSpec(PresetName("a"), keep_alive_seconds=float("inf"))
    decisions = [
        Start(InstanceId(1), endless, Reason.REQUESTED),
        Drain(InstanceId(1), Reason.EVICTED, None, (("due", float("inf")),)),
        WakeAt(float("inf")),
    ]
    header = Header("l", 1, "", 0.0, Config(keep_alive_seconds=float("inf")), (endless,))
    event = PresetsChanged((endless,), ((PresetName("b"), PresetName("a")),))
    path = written(tmp_path, encode_header(header), encode_step(1.0, event, decisions))

    read = list(read_event_log(path))

    assert read == [header, Step(2, 1.0, event, tuple(decisions))]


def test_no_text_of_a_client_stands_in_it():
    exit = Exit(code=1, words="error: a client's grammar")
    refused = Reject(RequestId(1), Refusal(Code.MODEL_LOAD_FAILED, exit=exit))

    line = encode_step(1.0, Exited(InstanceId(1), exit), [refused])

    assert b"grammar" not in line
    assert json.loads(line)["event"][1]["exit"]["code"] == 1


def test_a_last_line_that_was_cut_is_left_out(tmp_path):
    whole = encode_step(1.0, Ticked(), [])
    steps = read_back(tmp_path, whole, whole[:-7])

    assert [step.number for step in steps] == [2]


def test_missing_steps_are_told(tmp_path):
    assert read_back(tmp_path, encode_gap(3)) == [Gap(2, 3)]


@pytest.mark.parametrize(
    "lines",
    [
        (b"{}\n",),
        (b"no json\n",),
        (encode_header(HEADER).replace(b'"version":1', b'"version":99'),),
        (encode_step(1.0, Ticked(), []),),
        (encode_header(HEADER), b'{"at":1.0,"event":["Unheard",{}],"decisions":[]}\n'),
        (encode_header(HEADER), b'{"at":1.0,"event":["Released",{}],"decisions":[]}\n'),
        (encode_header(HEADER), encode_header(HEADER)),
    ],
    ids=["empty", "text", "version", "no header", "unknown event", "no request", "two headers"],
)
def test_what_is_no_event_log_is_refused_with_its_line(tmp_path, lines):
    with pytest.raises(CannotRead, match=f"line {len(lines)}"):
        list(read_event_log(written(tmp_path, *lines)))


def test_a_life_is_read_from_its_first_part_on(tmp_path):
    first = written(tmp_path, encode_header(HEADER), encode_step(6.0, Ticked(), []))
    later = Header("life", 2, "", 6.0, Config())
    second = written(tmp_path, encode_header(later), encode_step(7.0, Ticked(), []), part=2)

    read = list(read_life(second))

    assert [(path, line.now) for path, line in read] == [
        *((first, 5.0), (first, 6.0)),
        *((second, 6.0), (second, 7.0)),
    ]


def test_a_part_without_those_before_it_is_refused(tmp_path):
    third = written(tmp_path, encode_header(Header("life", 3, "", 6.0, Config())), part=3)
    written(tmp_path, encode_header(HEADER), part=1)

    with pytest.raises(CannotRead, match=r"missing: events-life-0002\.jsonl"):
        list(read_life(third))


def test_an_empty_file_is_no_life(tmp_path):
    with pytest.raises(CannotRead, match="is empty"):
        list(read_life(written(tmp_path)))


def test_whoever_reads_it_needs_no_django():
    module = ast.parse(Path(scheduler.runtime.event_log.__file__).read_text())
    named = {
        (node.module or "").split(".")[0]
        if isinstance(node, ast.ImportFrom)
        else node.names[0].name
        for node in ast.walk(module)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }

    assert named <= sys.stdlib_module_names | {"msgspec", "scheduler"}
