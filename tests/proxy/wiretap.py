"""A gateway in front of the real scheduler, whose children are stand-ins, and what passes between
the two."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from proxy.callers import Caller
from proxy.conf import ProxyConfig
from proxy.consumers import GatewayApp
from scheduler.client import SchedulerClient
from scheduler.core.timers import kept_for
from scheduler.protocol import Refused
from tests.runtime.serving import serving, socket_path
from tests.runtime.standing_in import Stage, preset

from .asking import Exchange
from .fakes import Connection, FakeNotes, KeptUsage, NoDownloads, Received, fake_child
from .ollama_child import HELLO

VECTORS = {"data": [{"index": 0, "embedding": [0.6, 0.8]}], "usage": {"prompt_tokens": 1}}
MOST_INSTANCES = 3


class Teams:
    """The key is the team's name."""

    def as_known(self, caller: Caller) -> Caller:
        return caller

    async def identify(self, headers: Any, by_session: object = None) -> Caller:
        key = dict(headers).get(b"authorization", b"").decode().removeprefix("Bearer ")
        if not key:
            raise Refused("invalid_api_key", "An API key is needed.")
        return Caller(key, key)

    async def look(self) -> bool:
        return False

    async def close(self) -> None:
        pass


class Shared:
    """One model, `a`, that several tenants use."""

    def __init__(self, app: GatewayApp, stage: Stage, said: list[dict[str, Any]]) -> None:
        self.app = app
        self.stage = stage
        self.said = said
        """What the gateway has told the scheduler."""

    def asks(
        self, team: str, path: str, body: Any = None, *, method: str = "POST", query: bytes = b""
    ) -> Exchange:
        headers = [(b"authorization", f"Bearer {team}".encode())]
        data = b"" if body is None else json.dumps(body).encode()
        return Exchange(self.app, path, method=method, body=data, query=query, headers=headers)

    async def settled(self) -> None:
        """All that was told so far has been done."""
        await self.app._scheduler.ping()
        await self.stage.owner.caught_up()

    @property
    def kept_for(self) -> float:
        """Seconds that its instance stays once it is idle; below 0 when it has gone."""
        planner = self.stage.owner.planner
        return max(
            (kept_for(each, planner.config) for each in planner.instances.values()), default=-1
        )


async def answers(request: Received, child: Connection) -> None:
    """As llama-server does, in the little that a gateway looks at."""
    asked = json.loads(request.body) if request.body else {}
    if "/v1/embeddings" in request.line:
        await child.answer(json.dumps(VECTORS).encode())
    elif asked.get("stream"):
        await child.begin("text/event-stream")
        await child.say(b"".join(HELLO))
        await child.finish()
    else:
        await child.answer(b"{}")


@contextlib.asynccontextmanager
async def shared(keep_alive: float | None = None, slots: int = 2) -> AsyncIterator[Shared]:
    spec = preset("a", slots, keep_alive_seconds=keep_alive)
    async with contextlib.AsyncExitStack() as stack:
        tapped = stack.enter_context(socket_path())
        sockets = tapped.parent
        stage, control = await stack.enter_async_context(serving(spec, sockets=sockets))
        said = await stack.enter_async_context(_tap(tapped, control))
        for number in range(1, MOST_INSTANCES + 1):
            await stack.enter_async_context(fake_child(sockets / f"{number}.sock", answers))
        config = ProxyConfig(
            control_socket=tapped, temp_folder=sockets, usage_folder=sockets, secret_key="for tests"
        )
        app = GatewayApp(
            config,
            scheduler=SchedulerClient(tapped),
            keys=Teams(),  # type: ignore[arg-type]
            downloads=NoDownloads(),  # type: ignore[arg-type]
            usage=KeptUsage(),  # type: ignore[arg-type]
            notes=FakeNotes(),  # type: ignore[arg-type]
        )
        await app.start()
        try:
            yield Shared(app, stage, said)
        finally:
            await app.close()


@contextlib.asynccontextmanager
async def _tap(path: Path, control: Path) -> AsyncIterator[list[dict[str, Any]]]:
    said: list[dict[str, Any]] = []
    tasks: set[asyncio.Task[None]] = set()

    async def carry(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, listens: bool
    ) -> None:
        while line := await reader.readline():
            if listens:
                said.append(json.loads(line))
            writer.write(line)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        read, write = await asyncio.open_unix_connection(str(control), limit=1 << 24)
        tasks.add(asyncio.create_task(carry(reader, write, listens=True)))
        tasks.add(asyncio.create_task(carry(read, writer, listens=False)))

    server = await asyncio.start_unix_server(accept, str(path), limit=1 << 24)
    try:
        yield said
    finally:
        server.close()
        await asyncio.gather(*tasks)
        await server.wait_closed()
