"""A trial of a preset that is being edited, as the web process runs it: it lasts as long as its
connection to the scheduler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from models_registry.engines import EngineKind
from models_registry.launch import LaunchSpec
from models_registry.ports import Running, TrialNews

from .calling import unavailable
from .connection import Connection, ConnectionLost
from .ports import HELD_UP, running_of
from .protocol import (
    TRIAL,
    Granted,
    InstanceState,
    QueueEntry,
    Refused,
    Release,
    Snapshot,
    SnapshotState,
)
from .protocol import Try as TryAsked
from .runtime.engines.http import asking
from .runtime.engines.llama_server import EMBEDS_ONLY

LOOK_EVERY_SECONDS = 0.5
ANSWER_SECONDS = 120.0
TOKENS = 16
"""One says nothing of the speed."""
NO_SUCH_TASK = 501
"""So llama-server answers where the model has no generation."""


async def trial(
    socket: Path, spec: LaunchSpec, shape: dict[str, Any], *, estimated: bool
) -> AsyncGenerator[TrialNews]:
    """The last piece says how it ended."""
    begun = time.monotonic()
    try:
        connection = await _connected(socket)
    except Refused as refusal:
        yield TrialNews("failed", 0.0, refusal.message)
        return
    trial = _Trial(connection, spec, begun)
    try:
        async with aclosing(trial.run(shape, estimated=estimated)) as told:
            async for news in told:
                yield news
    except Refused as refusal:
        yield trial.news("failed", refusal.message)
    except ConnectionLost:
        yield trial.news("failed", unavailable().message)
    finally:
        connection.close()  # whatever it was: the scheduler ends what belonged to it


async def _connected(socket: Path) -> Connection:
    loop = asyncio.get_running_loop()
    try:
        _, connection = await loop.create_unix_connection(
            lambda: Connection(lambda: None, loop), str(socket)
        )
    except OSError as failure:
        raise unavailable() from failure
    return connection


class _Trial:
    def __init__(self, connection: Connection, spec: LaunchSpec, begun: float) -> None:
        self._connection = connection
        self._spec = spec
        self._begun = begun
        self._name = f"{spec.preset}{TRIAL}"
        self._before: frozenset[str] | None = None
        """Presets that ran when it began."""
        self._made_way: tuple[str, ...] = ()
        self._running: Running | None = None

    def news(self, stage: Any, words: str = "", **figures: Any) -> TrialNews:
        figures = {"running": self._running, "made_way": self._made_way, **figures}
        return TrialNews(stage, time.monotonic() - self._begun, words, **figures)

    async def run(self, shape: dict[str, Any], *, estimated: bool) -> AsyncGenerator[TrialNews]:
        """Raises Refused, and ConnectionLost."""
        self._see(await self._snapshot())
        ask = TryAsked(
            self._connection.next_id(), msgspec.to_builtins(self._spec), shape, estimated
        )
        asking = asyncio.ensure_future(self._connection.ask(ask))
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=LOOK_EVERY_SECONDS)
                if not asking.done():
                    yield self._under_way(await self._snapshot())
            granted = msgspec.convert(asking.result(), Granted)
        finally:
            asking.cancel()
        self._see(await self._snapshot())
        loading = granted.loading
        yield self.news("loaded", load_seconds=loading)
        try:
            answer = await _answered(self._spec, granted)
        finally:
            self._connection.tell(Release(self._connection.next_id(), granted.lease))
        self._see(await self._snapshot())
        yield self.news("answered", load_seconds=loading, **answer)

    async def _snapshot(self) -> SnapshotState:
        ok = await self._connection.ask(Snapshot(self._connection.next_id()))
        return msgspec.convert(ok, SnapshotState)

    def _see(self, snapshot: SnapshotState) -> InstanceState | None:
        """Its own instance, if there is one."""
        own = next((each for each in snapshot.instances if each.preset == self._name), None)
        running = frozenset(each.preset for each in snapshot.instances) - {self._name}
        if self._before is None:
            self._before = running
        self._made_way = tuple(sorted(self._before - running))
        if own is not None:
            self._running = running_of(own)
        return own

    def _under_way(self, snapshot: SnapshotState) -> TrialNews:
        own = self._see(snapshot)
        if own is not None:
            return self.news("loads", progress=own.progress)
        entry = next((each for each in snapshot.queue if each.preset == self._name), None)
        return self.news("waits", _holdup(entry))


def _holdup(entry: QueueEntry | None) -> str:
    if entry is None or not entry.holdup:
        return ""
    return HELD_UP.get(entry.holdup, entry.holdup)


async def _answered(spec: LaunchSpec, granted: Granted) -> dict[str, Any]:
    """What TrialNews says of an answer. Raises Refused where there is none."""
    own = spec.engine.kind == EngineKind.LLAMA_SERVER
    asked: list[tuple[str, dict[str, Any]]] = []
    if not own:
        named = {"model": granted.model or granted.preset}
        asked = [("/v1/completions", {**named, "prompt": "Hello", "max_tokens": TOKENS})]
    else:
        if EMBEDS_ONLY.isdisjoint(spec.argv):
            body = {"prompt": "Hello", "n_predict": TOKENS, "cache_prompt": False}
            asked = [("/completion", {**body, "ignore_eos": True})]
        asked.append(("/embedding", {"content": "Hello"}))
    status, text = 0, b""
    for path, body in asked:
        begun = time.monotonic()
        status, text = await _posted(granted.address, path, body)
        if status == 200:
            return _figures(text, time.monotonic() - begun)
        if status != NO_SUCH_TASK:
            break
    words = text.decode(errors="replace")[:600]
    if own:
        raise Refused("model_load_failed", f"it loaded, and answered {status}: {words}")
    return {"words": f"it loaded; asked for a completion it answered {status}: {words}"}


async def _posted(address: str, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
    headers = {"Content-Type": "application/json"}
    try:
        async with (
            asking(address, ANSWER_SECONDS) as session,
            session.post(path, data=msgspec.json.encode(body), headers=headers) as answer,
        ):
            return answer.status, await answer.read()
    except TimeoutError:
        raise Refused(
            "answer_timeout", f"it loaded, and did not answer in {ANSWER_SECONDS:g} s"
        ) from None
    except (aiohttp.ClientError, OSError) as failure:
        raise Refused("model_died", f"it loaded, and did not answer: {failure}") from failure


def _figures(text: bytes, seconds: float) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        found = None
    told: Mapping[str, Any] = found if isinstance(found, dict) else {}
    timings, usage = told.get("timings"), told.get("usage")
    if isinstance(timings, dict):
        read = _number(timings.get("prompt_ms"))
        return {
            "first": None if read is None else read / 1000,
            "tokens": int(_number(timings.get("predicted_n")) or 0),
            "read_speed": _number(timings.get("prompt_per_second")),
            "answer_speed": _number(timings.get("predicted_per_second")),
        }
    tokens = int(_number(usage.get("completion_tokens")) or 0) if isinstance(usage, dict) else 0
    return {"tokens": tokens, "answer_speed": tokens / seconds if tokens else None}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
