"""The HTTP client to the children, against sockets that say exactly what a test wants."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.upstream import HELD_UNREAD, LONGEST_HEAD, Answer, UpstreamFailed

from .asking import until
from .fakes import Connection, Received, fake_child

EVERY_BYTE = bytes(range(256)) * 500
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"


async def asked(path: Path, body: bytes = b"{}") -> Answer:
    answer = Answer(asyncio.get_running_loop())
    await answer.ask(str(path), HEAD % len(body), body, 5.0)
    return answer


async def whole(answer: Answer) -> bytes:
    async with asyncio.timeout(30):
        if not answer.begun:
            await answer.begin()
        parts = [answer.first]
        while part := await answer.more():
            parts.append(part)
    assert answer.ended
    return b"".join(parts)


def says(*parts: bytes):
    """A child that sends these, one write each, and closes."""

    async def script(received: Received, child: Connection) -> None:
        for part in parts:
            await child.raw(part)
            await asyncio.sleep(0)

    return script


def chunked(data: bytes, size: int) -> list[bytes]:
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    return [b"%x\r\n%b\r\n" % (len(part), part) for part in parts] + [b"0\r\n\r\n"]


OK = b"HTTP/1.1 200 OK\r\n"
STATED = b"Content-Length: %d\r\n\r\n" % len(EVERY_BYTE)
CHUNKED = b"Transfer-Encoding: Chunked\r\n\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        (OK, STATED, EVERY_BYTE),
        (OK + STATED + EVERY_BYTE,),
        (OK + CHUNKED, *chunked(EVERY_BYTE, 1000)),
        (OK + CHUNKED + b"".join(chunked(EVERY_BYTE, 7)),),
        (OK, b"\r\n", EVERY_BYTE),
        (b"HTTP/1.0 200 OK\r\n\r\n", EVERY_BYTE),
        (b"HTTP/1.1 100 Continue\r\n\r\n", OK + STATED + EVERY_BYTE),
        (b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + OK + STATED + EVERY_BYTE,),
        (OK + STATED + EVERY_BYTE + b"what nobody asked for",),
    ],
)
async def test_an_answer_is_what_the_child_sent_however_it_marks_the_end(tmp_path, parts):
    async with fake_child(tmp_path / "child", says(*parts)):
        answer = await asked(tmp_path / "child")
        assert await whole(answer) == EVERY_BYTE

    assert answer.status == 200
    assert (b"link", b"<x>") not in answer.headers


@pytest.mark.parametrize(
    "parts",
    [
        (OK + b"Content-Length: 0\r\n\r\n",),
        (b"HTTP/1.1 204 No Content\r\n\r\n",),
        (OK + CHUNKED, b"0\r\n\r\n"),
        (OK + b"\r\n",),
    ],
)
async def test_an_answer_may_be_empty(tmp_path, parts):
    async with fake_child(tmp_path / "child", says(*parts)):
        assert await whole(await asked(tmp_path / "child")) == b""


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (b"HTTP/1.1 200",),
        (b"HTTP/1.1 600 Odd\r\nContent-Length: 2\r\n\r\n{}",),
        (OK + b"X: a\x01b\r\n" + STATED + EVERY_BYTE,),
        (OK + b"Content-Length: 5\r\n\r\nfour",),
        (OK + CHUNKED,),
        (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n12",),
        (OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n12",),
        (OK + b"Content-Length: -1\r\n\r\n",),
        (OK + b"Transfer-Encoding: gzip\r\n\r\n12",),
        (OK + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\n12",),
        (OK + b"X: a\0b\r\nContent-Length: 2\r\n\r\n12",),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",),
        (b"HTTP/1.1 100 Continue\r\n\r\n",),
        (b"SSH-2.0-OpenSSH\r\n",),
    ],
)
async def test_an_answer_that_is_broken_before_its_first_byte_counts_as_none(tmp_path, parts):
    async with fake_child(tmp_path / "child", says(*parts)):
        answer = await asked(tmp_path / "child")
        with pytest.raises(UpstreamFailed):
            await answer.begin()


@pytest.mark.parametrize(
    "last", [b"", b"5\r\nfour", b"not a chunk\r\n", b"-5\r\nlittle\r\n"], ids=repr
)
async def test_a_chunked_answer_that_breaks_off_is_not_taken_for_whole(tmp_path, last):
    async def script(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream; charset=utf-8")
        await child.say(b"data: 1\n\n")
        if last:
            await child.raw(last)

    async with fake_child(tmp_path / "child", script):
        answer = await asked(tmp_path / "child")
        await answer.begin()
        assert answer.is_stream
        assert answer.first.startswith(b"data: 1\n\n")
        with pytest.raises(UpstreamFailed):
            await whole(answer)
        assert not answer.ended


async def test_a_head_without_end_is_not_kept(tmp_path):
    filler = b"X-Filler: " + b"x" * 1000 + b"\r\n"

    async def script(received: Received, child: Connection) -> None:
        await child.raw(OK)
        while True:
            await child.raw(filler)

    async with fake_child(tmp_path / "child", script) as child:
        answer = await asked(tmp_path / "child")
        with pytest.raises(UpstreamFailed, match="too large"):
            await answer.begin()
        await until(lambda: child.ended)

    assert len(answer.headers) * len(filler) < 8 * LONGEST_HEAD


async def test_nobody_listening_is_a_failure(tmp_path):
    with pytest.raises(UpstreamFailed):
        await asked(tmp_path / "nobody")


async def test_a_child_that_is_slow_to_accept_is_waited_for(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "child"))
        listener.listen(0)
        with socket.socket(socket.AF_UNIX) as before_us:
            before_us.connect(str(tmp_path / "child"))
            with pytest.raises(UpstreamFailed):
                await Answer(asyncio.get_running_loop()).ask(
                    str(tmp_path / "child"), HEAD % 0, b"", 0.0
                )
            asking = asyncio.create_task(asked(tmp_path / "child"))
            await asyncio.sleep(0.05)
            assert not asking.done()
            listener.accept()[0].close()
            (await asking).close()


async def test_a_body_in_parts_arrives_whole(tmp_path):
    parts = [EVERY_BYTE] * 20

    async def body() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    async with fake_child(tmp_path / "child", says(OK + STATED + EVERY_BYTE)) as child:
        answer = Answer(asyncio.get_running_loop())
        size = sum(map(len, parts))
        sending = await answer.ask(str(tmp_path / "child"), HEAD % size, body(), 5.0)
        assert await whole(answer) == EVERY_BYTE

    assert child.received[0].body == b"".join(parts)
    assert sending is not None
    await asyncio.wait([sending])


async def test_an_answer_may_come_before_the_body_is_sent(tmp_path):
    """A child that refuses a large body need not read it; the rest of it is not sent, then."""
    taken = 0
    answered, closed = asyncio.Event(), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * 100_000

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")
        await answered.wait()
        writer.close()
        closed.set()

    server = await asyncio.start_unix_server(refuse, str(tmp_path / "child"))
    async with server:
        answer = Answer(asyncio.get_running_loop())
        sending = await answer.ask(str(tmp_path / "child"), HEAD % (1 << 40), body(), 5.0)
        assert await whole(answer) == b"no!"
        assert sending is not None
        await asyncio.wait([sending], timeout=30)
        answered.set()
        await closed.wait()

    assert answer.status == 413
    assert sending.done()
    assert taken < 100


async def test_an_answer_counts_also_when_the_child_closes_before_the_body_is_sent(tmp_path):
    closed = asyncio.Event()

    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")
        writer.transport.abort()
        closed.set()

    server = await asyncio.start_unix_server(refuse, str(tmp_path / "child"))
    async with server:
        answer = Answer(asyncio.get_running_loop())
        await answer.ask(str(tmp_path / "child"), HEAD % (4 << 20), b"x" * (4 << 20), 5.0)
        await closed.wait()

        assert await whole(answer) == b"no!"


async def test_a_body_that_cannot_be_read_is_no_failure_of_the_child(tmp_path):
    async def body() -> AsyncIterator[bytes]:
        yield b"x"
        raise OSError("the disk")

    async with fake_child(tmp_path / "child", says()) as child:
        answer = Answer(asyncio.get_running_loop())
        await answer.ask(str(tmp_path / "child"), HEAD % 100, body(), 5.0)
        with pytest.raises(OSError, match="the disk"):
            await answer.begin()
        await until(lambda: child.ended)


async def test_a_child_waits_for_a_reader_who_does_not_read(tmp_path):
    sent = 0

    async def script(received: Received, child: Connection) -> None:
        nonlocal sent
        await child.begin("text/event-stream")
        while sent < 64 << 20:
            await child.say(b"x" * 65536)
            sent += 65536
        await child.finish()

    async with fake_child(tmp_path / "child", script):
        answer = await asked(tmp_path / "child")
        await answer.begin()
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.1)
        assert sent < 16 * HELD_UNREAD
        total = len(answer.first)
        while part := await answer.more():
            total += len(part)

    assert total == 64 << 20


async def test_whoever_waits_may_be_cancelled_and_another_go_on(tmp_path):
    go_on = asyncio.Event()

    async def script(received: Received, child: Connection) -> None:
        await go_on.wait()
        await child.answer(EVERY_BYTE)

    async with fake_child(tmp_path / "child", script):
        answer = await asked(tmp_path / "child")
        first = asyncio.create_task(answer.begin())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        go_on.set()
        assert await whole(answer) == EVERY_BYTE


async def test_closing_cuts_the_connection(tmp_path):
    closed = asyncio.Event()

    async def script(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(b"data: 1\n\n")
        await child.until_closed()
        closed.set()

    async with fake_child(tmp_path / "child", script):
        answer = await asked(tmp_path / "child")
        await answer.begin()
        answer.close()
        answer.close()
        async with asyncio.timeout(30):
            await closed.wait()


async def test_an_answer_that_is_over_is_no_garbage_to_be_looked_for(tmp_path):
    async with fake_child(tmp_path / "child", says(OK + STATED + EVERY_BYTE)):
        answer = await asked(tmp_path / "child")
        await whole(answer)
        held = weakref.ref(answer)

        gc.disable()
        try:
            del answer
            assert held() is None
        finally:
            gc.enable()


async def test_what_was_never_asked_is_never_answered():
    with pytest.raises(UpstreamFailed):
        await Answer(asyncio.get_running_loop()).begin()


@pytest.mark.parametrize(
    "parts", [(OK + STATED + EVERY_BYTE,), (OK + CHUNKED, *chunked(EVERY_BYTE, 7))]
)
async def test_a_child_on_a_port_is_heard_as_one_on_a_socket(parts):
    async with fake_child(None, says(*parts)) as child:
        answer = Answer(asyncio.get_running_loop())
        await answer.ask(child.address, HEAD % 2, b"{}", 5.0)
        assert await whole(answer) == EVERY_BYTE

    assert child.received[0].body == b"{}"


async def test_a_port_on_which_nobody_listens_is_told_at_once():
    with socket.socket() as bound:  # bound, and not listening: nobody else can
        bound.bind(("127.0.0.1", 0))
        answer = Answer(asyncio.get_running_loop())
        with pytest.raises(UpstreamFailed):
            await answer.ask(f"127.0.0.1:{bound.getsockname()[1]}", HEAD % 2, b"{}", 5.0)
