"""docs/control-socket.md is what the protocol takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from scheduler.protocol import ERRORS, Granted, Operation, Reply, SnapshotState

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


def test_its_lease_and_its_snapshot_are_whole():
    granted, snapshot = (msgspec.json.decode(REPLIES[n], type=Reply).ok for n in (0, -1))
    msgspec.convert(granted, Granted)
    msgspec.convert(snapshot, SnapshotState)
