"""docs/control-socket.md is what the protocol takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from scheduler.core.explaining import Holdup
from scheduler.protocol import (
    ERRORS,
    CountedState,
    DevicesState,
    Explained,
    FiguresState,
    FitAnswer,
    Granted,
    HoldupName,
    Operation,
    Reply,
    SnapshotState,
    StreamsState,
    StreamState,
    WaitersPage,
)

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "control-socket.md").read_text()
REQUESTS = re.findall(r"```json request\n(.*?)\n```", TEXT, re.DOTALL)
REPLIES = re.findall(r"```json reply\n(.*?)\n```", TEXT, re.DOTALL)
OPERATIONS = {operation.__struct_config__.tag for operation in get_args(Operation)}


@pytest.mark.parametrize("line", REQUESTS)
def test_every_request_in_it_is_taken(line):
    msgspec.json.decode(line, type=Operation)


@pytest.mark.parametrize("line", REPLIES)
def test_every_reply_in_it_is_a_reply(line):
    reply = msgspec.json.decode(line, type=Reply)
    assert reply.error is None or reply.error.code in ERRORS


def test_every_operation_has_its_heading_and_one_example():
    assert re.findall(r"^### (\w+)$", TEXT, re.MULTILINE) == [
        msgspec.json.decode(line)["op"] for line in REQUESTS
    ]
    assert {msgspec.json.decode(line)["op"] for line in REQUESTS} == OPERATIONS


@pytest.mark.parametrize(
    ("op", "told"),
    [
        ("acquire", Granted),
        ("counted", CountedState),
        ("stream", StreamState),
        ("streams", StreamsState),
        ("snapshot", SnapshotState),
        ("devices", DevicesState),
        ("fit", FitAnswer),
        ("waiters", WaitersPage),
        ("figures", FiguresState),
        ("explain", Explained),
    ],
)
def test_a_reply_in_it_holds_all_that_is_told(op, told):
    [id] = [line["id"] for line in map(msgspec.json.decode, REQUESTS) if line["op"] == op]
    [ok] = [
        reply.ok
        for reply in (msgspec.json.decode(line, type=Reply) for line in REPLIES)
        if reply.id == id and reply.ok is not None
    ]

    assert msgspec.json.decode(msgspec.json.encode(msgspec.convert(ok, told))) == ok


def test_every_holdup_in_it_is_one_and_none_is_missing():
    rows = re.findall(r"^\| `(\w+)` \| (?:other|it is|its model)", TEXT, re.MULTILINE)

    assert rows == list(get_args(HoldupName)) == [holdup.value for holdup in Holdup]
