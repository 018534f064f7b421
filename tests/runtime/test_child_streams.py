"""What a child is asked about its streams, and what is made of its answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from scheduler.runtime.child_streams import BUFFER_BYTES, ChildStreams

from .serving import socket_path

Handler = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def child(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    with socket_path() as path:
        await web.UnixSite(runner, str(path)).start()
        try:
            yield str(path)
        finally:
            await runner.cleanup()


def held(key: str = "k", total: int = 7, *, done: bool = True) -> dict[str, object]:
    times = {"started_at": 1, "completed_at": 2 if done else 0}
    return {"conversation_id": key, "is_done": done, "total_bytes": total, **times}


async def test_a_look_names_the_keys_and_tells_what_is_known_of_them():
    asked: list[object] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.method, request.path, await request.json()))
        return web.json_response([held("k1", done=False)])

    async with child(answer) as address:
        known = await ChildStreams().look(address, ["k1", "k2"])

    assert asked == [("POST", "/v1/streams/lookup", {"conversation_ids": ["k1", "k2"]})]
    assert known is not None
    assert [(each.is_done, each.total_bytes) for each in known.values()] == [(False, 7)]


@pytest.mark.parametrize(
    "response",
    [
        {"status": 500, "text": "[]"},
        {"text": "garbage"},
        {"text": '[{"conversation_id": 1}]'},
        {"text": '[{"x": ' + "[" * 5000 + "]" * 5000 + "}]"},
    ],
)
async def test_a_child_that_says_nothing_of_use_does_not_say(response):
    async def answer(request: web.Request) -> web.Response:
        return web.Response(**response)

    async with child(answer) as address:
        assert await ChildStreams().look(address, ["k"]) is None
        assert await ChildStreams().read(address, "k") is None


async def test_where_nobody_listens_nothing_is_known_and_a_stop_is_no_error():
    with socket_path() as path:
        assert await ChildStreams().look(str(path), ["k"]) is None
        assert await ChildStreams().read(str(path), "k") is None
        await ChildStreams().stop(str(path), "k")


async def test_a_stop_names_the_key():
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(f"{request.method} {request.path_qs}")
        return web.Response(status=204)

    async with child(answer) as address:
        await ChildStreams().stop(address, "k1")

    assert asked == ["DELETE /v1/stream?conv_id=k1"]


@pytest.mark.parametrize(("total", "begin"), [(7, 0), (BUFFER_BYTES + 10, 10)])
async def test_of_a_long_stream_is_read_what_the_child_still_has(total, begin):
    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST":
            return web.json_response([held(total=total)])
        return web.Response(body=f"from {request.query['from']} of {request.query['conv_id']}")

    async with child(answer) as address:
        found = await ChildStreams().read(address, "k")

    assert found == (begin, f"from {begin} of k".encode())


async def test_a_stream_that_is_still_written_is_not_read_for_keeping():
    async def answer(request: web.Request) -> web.Response:
        assert request.method == "POST"
        return web.json_response([held(done=False)])

    async with child(answer) as address:
        assert await ChildStreams().read(address, "k") is None


async def test_a_buffer_that_has_moved_on_meanwhile_is_lost():
    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST":
            return web.json_response([held()])
        return web.json_response({"error": {"message": "Stream offset lost"}}, status=400)

    async with child(answer) as address:
        assert await ChildStreams().read(address, "k") is None
