"""The control socket on a stage of stand-ins."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models_registry.launch import LaunchSpec
from scheduler.client import SchedulerClient
from scheduler.runtime.control import ControlServer

from .standing_in import PATIENCE, Stage, staged


@contextlib.contextmanager
def socket_path() -> Iterator[Path]:
    """A path short enough for a socket; pytest's tmp_path may not be."""
    folder = Path(tempfile.mkdtemp(prefix="cs-"))
    try:
        yield folder / "control.sock"
    finally:
        shutil.rmtree(folder)


@dataclass
class Wire:
    """A connection whose lines a test writes and reads itself."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, line: bytes | dict[str, Any]) -> None:
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        self.writer.write(data + b"\n")

    async def reply(self) -> dict[str, Any]:
        line = await self.reader.readline()
        assert line, "the connection was closed"
        return json.loads(line)

    async def ask(self, line: bytes | dict[str, Any]) -> dict[str, Any]:
        self.send(line)
        return await self.reply()


@contextlib.asynccontextmanager
async def wired(socket: Path) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_unix_connection(str(socket), limit=1 << 24)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def listening(stage: Stage, socket: Path, revision: int = 1) -> AsyncIterator[None]:
    async def reload() -> int:
        return revision

    server = ControlServer(stage.operations, reload)
    task = asyncio.create_task(server.serve(socket))
    async with asyncio.timeout(PATIENCE):
        while not socket.exists():  # noqa: ASYNC110, ASYNC240 - there is no event for a file
            await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def serving(*specs: LaunchSpec, **options: Any) -> AsyncIterator[tuple[Stage, Path]]:
    with socket_path() as socket:
        async with staged(*specs, **options) as stage, listening(stage, socket):
            yield stage, socket


@contextlib.asynccontextmanager
async def client_of(socket: Path, wait: float = PATIENCE) -> AsyncIterator[SchedulerClient]:
    client = SchedulerClient(socket, reconnect_wait_seconds=wait)
    await client.start()
    try:
        yield client
    finally:
        await client.close()
