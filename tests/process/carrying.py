"""A gateway process between a child that the test plays and a client that sees every byte."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httptools

from tests.proxy.fakes import FakeChild, Script, fake_child


@dataclass(frozen=True)
class Carrier:
    """Where it listens, and where it expects its child."""

    server: str
    pid: int
    port: int
    child: Path

    @asynccontextmanager
    async def childs(self, script: Script) -> AsyncIterator[FakeChild]:
        """The child is there inside the block."""
        async with fake_child(self.child, script) as child:
            yield child

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Client(reader, writer)
        finally:
            writer.close()


@contextmanager
def carrier(server: str, folder: Path, **limits: str) -> Iterator[Carrier]:
    """`limits` are settings of the environment."""
    address = folder / "child.sock"
    command = [sys.executable, "-m", "tests.process.carrying_program", server, str(address)]
    env = {"CORRAL_VAR": str(folder), "PATH": "/usr/bin:/bin", "CORRAL_NO_AUTH": "1", **limits}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout
        try:
            yield Carrier(server, process.pid, int(process.stdout.readline()), address)
        finally:
            process.kill()


class Answer:
    """What has come back of one answer. `whole`: HTTP's own end of it was seen."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.whole = False
        self._parser = httptools.HttpResponseParser(self)

    def header(self, name: bytes) -> bytes | None:
        return dict(self.headers).get(name)

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.whole = self.status >= 200


class Client:
    """One connection; one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.socket: socket.socket = writer.get_extra_info("socket")

    async def ask(self, body: bytes, *headers: bytes, path: str = "/v1/chat/completions") -> None:
        length = b"content-length: %d" % len(body)
        await self.send(head(path, *headers, length), body)

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def answer(self) -> Answer:
        """To its end, or to the end of the connection."""
        answer = Answer()
        async with asyncio.timeout(60):
            while not answer.whole and await self.more(answer):
                pass
        return answer

    async def more(self, answer: Answer) -> bool:
        """Some further bytes; False at the end of the connection."""
        try:
            data = await self.reader.read(1 << 16)
        except ConnectionError:
            return False
        if data:
            answer.feed(data)
        return bool(data)


def head(path: str, *headers: bytes) -> bytes:
    fixed = (b"POST %b HTTP/1.1" % path.encode(), b"host: localhost")
    return b"\r\n".join([*fixed, b"content-type: application/json", *headers, b"", b""])
