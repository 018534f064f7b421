"""What a killed process has left under way is recorded once by another."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from proxy.usage.open_records import Opened
from proxy.usage.record import Record
from scheduler.protocol import StreamState

from .asking import Exchange, until
from .fakes import Connection, Received
from .socket_house import echo, socket_house
from .test_conversations import ID, Pausing, ask

STREAM = b'data: {"choices":[]}\n\n' * 2
USAGE = b'data: {"timings":{"prompt_n":5,"cache_n":4,"predicted_n":2}}\n\n'


def left(folder: Path, **named: str) -> Path:
    """As a killed process leaves it: nobody holds its lock."""
    record = Record(
        record="stream-key-7",
        request_id="mine",
        at=1000.0,
        path="/v1/chat/completions",
        status=200,
        code="process_killed",
        read=30,
        estimated=True,
        charged=True,
    )
    path = folder / "usage" / "open" / "left.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(msgspec.json.encode(Opened(record, **named)))
    return path


def child_with(stream: bytes):
    """One that holds a stream which has ended."""

    async def script(received: Received, child: Connection) -> None:
        if received.line.startswith("POST /v1/streams/lookup"):
            [key] = json.loads(received.body)["conversation_ids"]
            held = {"conversation_id": key, "is_done": True, "total_bytes": len(stream)}
            await child.answer(json.dumps([{**held, "started_at": 1, "completed_at": 2}]).encode())
        else:
            assert received.line == "GET /v1/stream?conv_id=key-7&from=0 HTTP/1.1"
            await child.begin("text/event-stream")
            await child.say(stream)
            await child.finish()

    return script


async def settled(h, path: Path) -> Record:
    await h.app.start()
    await until(lambda: not path.exists())
    [record] = h.usage.records
    return record


def conversation(h, state: str, **fields: object) -> None:
    where = StreamState("talk", state, stream="key-7", ended=1012, **fields)
    h.scheduler.states["anna", "talk"] = where


TALK = {"owner": "anna", "conversation": "talk", "stream": "key-7"}


async def test_a_websocket_is_recorded_as_it_was_last_noted(house, tmp_path):
    path = left(tmp_path)
    async with house(child_with(b"")) as h:
        record = await settled(h, path)

    assert (record.read, record.estimated, record.code) == (30, True, "process_killed")


async def test_a_conversation_is_recorded_by_what_its_stream_tells_at_its_end(house, tmp_path):
    path = left(tmp_path, **TALK)
    async with house(child_with(STREAM + USAGE)) as h:
        conversation(h, "ended", address=h.child.address)
        record = await settled(h, path)

    assert (record.record, record.request_id) == ("stream-key-7", "mine")
    assert (record.read, record.cached, record.answered, record.estimated) == (9, 4, 2, False)
    assert (record.status, record.code, record.charged) == (200, "", True)
    assert record.duration == 12.0


async def test_one_that_was_stopped_is_counted_by_what_is_seen_of_it(house, tmp_path):
    path = left(tmp_path, **TALK)
    async with house(child_with(STREAM)) as h:
        conversation(h, "ended", address=h.child.address)
        record = await settled(h, path)

    assert (record.read, record.answered, record.estimated) == (30, 2, True)
    assert record.code == "process_killed"


async def test_one_whose_instance_had_to_go_is_read_from_its_file(house, tmp_path):
    path = left(tmp_path, **TALK)
    kept = tmp_path / "kept"
    kept.write_bytes(STREAM + USAGE)
    async with house(child_with(b"")) as h:
        conversation(h, "kept", path=str(kept), size=len(STREAM + USAGE))
        record = await settled(h, path)

    assert (record.read, record.answered, record.estimated) == (9, 2, False)


async def test_one_that_nobody_knows_any_more_is_recorded_as_it_was_noted(house, tmp_path):
    path = left(tmp_path, **TALK)
    async with house(child_with(b"")) as h:
        record = await settled(h, path)

    assert (record.read, record.answered, record.estimated) == (30, None, True)


async def test_nor_is_a_newer_stream_of_the_same_name_taken_for_it(house, tmp_path):
    path = left(tmp_path, **{**TALK, "stream": "key-6"})
    async with house(child_with(STREAM + USAGE)) as h:
        conversation(h, "ended", address=h.child.address)
        record = await settled(h, path)

    assert (record.read, record.answered) == (30, None)


async def test_nothing_is_recorded_of_one_that_is_still_written(house, tmp_path):
    path = left(tmp_path, **TALK)
    async with house(child_with(STREAM)) as h:
        conversation(h, "generating", address=h.child.address)
        await h.app.start()
        await Exchange(h.app, "/health", method="GET").end()
        assert h.usage.records == []

    assert path.exists()  # for whoever comes next


def noted(folder: Path) -> list[Opened]:
    files = (folder / "usage" / "open").glob("*.json")
    return [msgspec.json.decode(file.read_bytes(), type=Opened) for file in files]


async def test_a_conversation_is_noted_from_its_grant_to_its_record(house, tmp_path):
    child = Pausing()
    async with house(child) as h:
        exchange = ask(h.app)
        await until(lambda: exchange.body)
        [opened] = noted(tmp_path)
        child.go_on.set()
        await exchange.end()

    assert (opened.owner, opened.conversation, opened.stream) == ("", ID[1].decode(), "key-0")
    [record] = h.usage.records
    assert opened.record.record == record.record == "stream-key-0"
    assert (opened.record.status, opened.record.estimated, record.estimated) == (200, True, False)
    assert noted(tmp_path) == []


async def test_a_websocket_is_noted_with_what_its_child_has_told_so_far(tmp_path):
    usage = {"input_tokens": 5, "output_tokens": 3}
    async with socket_house(tmp_path, echo) as h:
        async with h.connect() as client:
            for times in (1, 2):
                await client.send(json.dumps({"usage": usage}))
                await client.recv()
                [opened] = noted(tmp_path)
                told = opened.record
                assert (told.read, told.answered, told.estimated) == (5 * times, 3 * times, True)
                assert (told.status, told.code, opened.stream) == (101, "process_killed", "")
        await until(lambda: h.usage.records)

    assert noted(tmp_path) == []
