"""Images that a request names by an address: refused, or fetched here, never by a child."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from proxy.media import fetching

from .asking import Exchange, until
from .fakes import Connection, Received

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b"{}")


class Site:
    """Where images lie. It keeps account of who has asked for what."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[str] = []
        self.connections = 0
        self.left = 0
        self.origin = ""
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.asked.append(head.split(b" ")[1].decode())
            await self._answer(reader, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.left += 1
            writer.close()


@asynccontextmanager
async def site(answer: Answer) -> AsyncIterator[Site]:
    made = Site(answer)
    server = await asyncio.start_server(made.serve, "127.0.0.1")
    made.origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield made


def has(body: bytes, kind: str = "image/png", status: str = "200 OK", **headers: str) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fields = {"content-type": kind, "content-length": str(len(body)), **headers}
        told = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"HTTP/1.1 {status}\r\n{told}\r\n".encode() + body)

    return answer


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


def body_with(path: str, url: str) -> bytes:
    """As the dialect of this path has an image."""
    if path.startswith("/v1/messages"):
        part: Any = {"type": "image", "source": {"type": "url", "url": url}}
    elif "responses" in path:
        part = {"type": "input_image", "image_url": url}
    else:
        part = {"type": "image_url", "image_url": {"url": url}}
    turns = [{"role": "user", "content": [part]}]
    name = "input" if "responses" in path or "embeddings" in path else "messages"
    return json.dumps({"model": "tiny", name: turns}).encode()


PATHS = [
    "/v1/chat/completions",
    "/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses/input_tokens",
    "/v1/embeddings",
    "/apply-template",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("scheme", ["http", "https", "HTTP", "file", "ftp"])
async def test_an_address_is_refused_before_a_model_is_asked_for(house, path, scheme):
    async with site(has(PNG)) as canary, house(answers) as h:
        url = canary.origin.replace("http", scheme) + "/x.png?token=hush"
        exchange = await Exchange(h.app, path, body=body_with(path, url)).end()

        assert exchange.status == 400
        error = exchange.json["error"]
        assert error["code"] == "media_refused"
        assert "CORRAL_MEDIA_HOSTS" in error["message"]
        assert "hush" not in error["message"]
        assert exchange.header(b"x-should-retry") == b"false"
        assert (canary.connections, h.scheduler.asked, h.child.received) == (0, [], [])


async def test_data_pass_byte_by_byte(house):
    body = body_with("/v1/chat/completions", "data:image/png;base64,iVBORw0KGgo=")
    async with house(answers) as h:
        exchange = await Exchange(h.app, body=body).end()

    assert exchange.status == 200
    assert h.child.received[0].body == body


@pytest.mark.parametrize("path", PATHS)
async def test_from_an_allowed_host_it_is_fetched_here_and_the_child_gets_the_data(house, path):
    async with site(has(PNG)) as images:
        url = f"{images.origin}/x.png?size=1"
        async with house(answers, media_hosts=(images.origin,)) as h:
            exchange = await Exchange(h.app, path, body=body_with(path, url)).end()
            room = h.app._room
            assert (room.held, room.spooled) == (0, 0)

        assert exchange.status == 200
        assert images.asked == ["/x.png?size=1"]
    got = h.child.received[0]
    assert base64.b64encode(PNG) in got.body
    assert b"127.0.0.1" not in got.body
    assert got.header("content-length") == str(len(got.body))


async def test_what_is_too_long_for_memory_goes_through_a_file(house):
    async with site(has(PNG)) as images:
        body = body_with("/v1/chat/completions", f"{images.origin}/x")
        async with house(answers, media_hosts=(images.origin,), retry_body=200) as h:
            exchange = await Exchange(h.app, body=body).end()
            room = h.app._room
            assert (room.held, room.spooled) == (0, 0)

    assert exchange.status == 200
    assert base64.b64encode(PNG) in h.child.received[0].body


async def test_one_that_is_named_twice_is_fetched_once(house):
    async with site(has(PNG)) as images:
        part = {"type": "image_url", "image_url": {"url": f"{images.origin}/x"}}
        turns = [{"role": "user", "content": [part, part]}]
        async with house(answers, media_hosts=(images.origin,)) as h:
            body = json.dumps({"model": "tiny", "messages": turns}).encode()
            await Exchange(h.app, body=body).end()

        assert len(images.asked) == 1
    assert h.child.received[0].body.count(base64.b64encode(PNG)) == 2


async def refusal(house: Any, answer: Answer, path: str = "/x", **settings: Any) -> Any:
    """What a client sees who names an image of an allowed site that answers so."""
    async with site(answer) as images:
        settings = {"media_hosts": (images.origin,), **settings}
        async with house(answers, **settings) as h:
            body = body_with("/v1/chat/completions", images.origin + path)
            exchange = await Exchange(h.app, body=body).end()
        assert h.child.received == []
        return exchange


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (has(b"<html>", "text/html"), 400, "text/html"),
        (has(b"", status="404 Not Found"), 400, "does not have it"),
        (has(b"", status="403 Forbidden"), 400, "does not have it"),
        (has(b"", status="302 Found", location="file:///etc/passwd"), 400, "cannot be asked"),
        (has(b"", status="302 Found", location="http://127.0.0.1:1/"), 400, "cannot be asked"),
        (has(b"", status="500 Oops"), 502, "could not be fetched"),
        (has(PNG, **{"content-length": "9999"}), 502, "could not be fetched"),
    ],
)
async def test_what_is_no_image_or_cannot_be_had_is_said(house, answer, status, words):
    exchange = await refusal(house, answer)

    assert exchange.status == status
    assert words in exchange.json["error"]["message"]
    assert exchange.json["error"]["code"] == (
        "media_refused" if status == 400 else "media_unavailable"
    )


async def test_one_that_is_too_large_is_not_read_to_its_end(house, monkeypatch):
    monkeypatch.setattr(fetching, "MOST_BYTES", 100)

    exchange = await refusal(house, has(PNG))

    assert "over 100 bytes" in exchange.json["error"]["message"]


async def test_more_than_a_request_may_name_are_refused_unfetched(house, monkeypatch):
    monkeypatch.setattr(fetching, "MOST_ADDRESSES", 0)

    exchange = await refusal(house, has(PNG))

    assert "more than 0" in exchange.json["error"]["message"]


async def test_a_site_that_says_nothing_is_waited_for_a_while(house, monkeypatch):
    monkeypatch.setattr(fetching, "SECONDS", 0.2)

    exchange = await refusal(house, says_nothing)

    assert (exchange.status, exchange.json["error"]["code"]) == (502, "media_unavailable")


async def test_a_private_address_behind_an_allowed_name_is_not_told(house):
    async with site(has(PNG)) as canary, house(answers, media_hosts=("*",)) as h:
        for url in (canary.origin + "/x", "https://127.0.0.1/x", "https://localhost/x"):
            body = body_with("/v1/chat/completions", url)
            exchange = await Exchange(h.app, body=body).end()

            assert (exchange.status, exchange.json["error"]["code"]) == (400, "media_refused")
            assert "not a public one" not in exchange.json["error"]["message"]
        assert canary.connections == 0


async def test_a_client_that_leaves_ends_the_fetching(house):
    async with site(says_nothing) as images, house(answers, media_hosts=(images.origin,)) as h:
        body = body_with("/v1/chat/completions", f"{images.origin}/x")
        exchange = Exchange(h.app, body=body)
        await until(lambda: images.asked)
        exchange.leave()
        await exchange.end()
        await until(lambda: images.left)

        assert (exchange.messages, h.scheduler.asked) == ([], [])
        room = h.app._room
        assert (room.held, room.spooled) == (0, 0)


async def test_ollamas_images_are_data_or_refused(house):
    async with site(has(PNG)) as canary, house(answers) as h:
        for path, named in (
            ("/api/chat", {"messages": [{"role": "user", "images": [canary.origin]}]}),
            ("/api/generate", {"prompt": "x", "images": [canary.origin]}),
        ):
            body = json.dumps({"model": "tiny", **named}).encode()
            exchange = await Exchange(h.app, path, body=body).end()

            assert exchange.status == 400
            assert "base64" in exchange.json["error"]
        assert (canary.connections, h.child.received) == (0, [])
