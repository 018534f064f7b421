from __future__ import annotations

import asyncio
import errno
import gzip
import os
import stat
from pathlib import Path

import pytest

from proxy import body

from .asking import Exchange, chat, until
from .fakes import Connection, Received


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b"{}")


def open_files(folder: Path) -> list[os.stat_result]:
    """Of this process: those in `folder`, also without a name."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            if str(link.readlink()).startswith(str(folder)):
                found.append(link.stat())
        except FileNotFoundError:
            continue
    return found


async def test_a_large_body_waits_in_a_file_without_a_name_that_only_we_can_read(house, tmp_path):
    body = chat(prompt="é" * 200_000)
    seen: list[os.stat_result] = []

    async def looks(received: Received, child: Connection) -> None:
        seen.extend(open_files(tmp_path / "tmp"))
        await child.answer(b"{}")

    async with house(looks, retry_body=50_000) as h:
        exchange = Exchange(h.app)
        for at in range(0, len(body), 30_000):
            exchange.give(body[at : at + 30_000], more=True)
        exchange.give(b"")
        await exchange.end()

    assert exchange.status == 200
    assert h.child.received[0].body == body
    assert [(s.st_nlink, stat.S_IMODE(s.st_mode), s.st_size) for s in seen] == [
        (0, 0o600, len(body))
    ]
    assert not open_files(tmp_path / "tmp")
    assert list((tmp_path / "tmp").iterdir()) == []
    assert stat.S_IMODE((tmp_path / "tmp").stat().st_mode) == 0o700


async def test_a_small_body_touches_no_file(house, tmp_path):
    async with house(answers) as h:
        await Exchange(h.app, body=chat()).end()

    assert not (tmp_path / "tmp").exists()


async def test_a_body_stated_too_large_is_refused_before_it_is_read(house):
    async with house(answers, max_body=1000) as h:
        exchange = await Exchange(h.app, headers=[(b"content-length", b"1001")]).end()

    assert exchange.status == 413
    assert exchange.json["error"]["code"] == "body_too_large"
    assert not h.scheduler.asked


@pytest.mark.parametrize("retry_body", [100, 10_000])
async def test_a_body_that_grows_too_large_is_refused_while_it_is_read(house, retry_body):
    async with house(answers, max_body=1000, retry_body=retry_body) as h:
        exchange = Exchange(h.app)
        exchange.give(b"x" * 600, more=True)
        exchange.give(b"x" * 600, more=True)
        await exchange.end()

    assert exchange.status == 413
    assert exchange.header(b"connection") == b"close"
    assert not h.scheduler.asked


async def test_a_body_that_stops_coming_is_refused(house):
    async with house(answers, body_timeout_seconds=0.05) as h:
        exchange = Exchange(h.app)
        exchange.give(b'{"model":', more=True)
        await exchange.end()

    assert exchange.status == 408
    assert exchange.json["error"]["code"] == "request_timeout"
    assert not h.scheduler.asked


async def test_a_key_is_asked_for_before_the_body(house):
    async with house(answers, no_auth=False) as h:
        exchange = await Exchange(h.app).end()

    assert exchange.status == 401
    assert exchange.json["error"]["code"] == "invalid_api_key"
    assert exchange.header(b"www-authenticate") == b"Bearer"
    assert not h.scheduler.asked


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b'{"model":"tiny","messages":[}', "invalid_json"),
        (b'{"model":"tiny"} trailing', "invalid_json"),
        (b'{"model":"tiny","x":"\xff"}', "invalid_json"),
        (b'{"model":"tiny","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "invalid_json"),
        (gzip.compress(b'{"model":"tiny"}'), "invalid_json"),
        (b"[]", "invalid_request"),
        (b'{"model":"a","model":"b"}', "invalid_request"),
        (b'{"m\\u006fdel":"a","model":"b"}', "invalid_request"),
        (b"{}", "model_missing"),
        (b'{"model":null}', "model_missing"),
        (b'{"model":7}', "model_missing"),
        (b'{"model":[[],{"model":"tiny"}]}', "model_missing"),
        (b'{"model":""}', "model_missing"),
        (b'{"messages":[{"model":"tiny"}]}', "model_missing"),
    ],
)
async def test_a_body_that_names_no_model_properly_loads_nothing(house, body, code):
    async with house(answers) as h:
        exchange = await Exchange(h.app, body=body).end()

    assert exchange.status == 400
    assert exchange.json["error"]["code"] == code
    assert exchange.header(b"x-should-retry") == b"false"
    assert not h.scheduler.asked


async def test_a_name_that_is_too_long_is_unknown_and_never_asked_for(house):
    async with house(answers) as h:
        exchange = await Exchange(h.app, body=chat("m" * 201)).end()

    assert exchange.status == 404
    assert exchange.json["error"]["code"] == "model_not_found"
    assert len(exchange.body) < 300
    assert not h.scheduler.asked


@pytest.mark.parametrize("spooled", [True, False])
async def test_large_bodies_are_looked_at_like_small_ones(house, spooled):
    body = chat(prompt="é" * (1 << 20))
    async with house(answers, retry_body=1000 if spooled else 1 << 30) as h:
        exchanges = [Exchange(h.app, body=body) for _ in range(3)]
        broken = await Exchange(h.app, body=body[:-1]).end()
        for exchange in exchanges:
            await exchange.end()

    assert [exchange.status for exchange in exchanges] == [200] * 3
    assert broken.json["error"]["code"] == "invalid_json"


MANY = 10
LARGE = 100_000


async def waiting(house, tmp_path, **settings) -> tuple[list[Exchange], list[int]]:
    """Many requests with large bodies at once; and what each spool file held meanwhile."""
    sizes: list[list[int]] = []
    arrived = asyncio.Event()

    async def looks(received: Received, child: Connection) -> None:
        sizes.append([found.st_size for found in open_files(tmp_path / "tmp")])
        if len(sizes) == MANY:
            arrived.set()
        await asyncio.wait_for(arrived.wait(), 30)
        await child.answer(b"{}")

    async with house(*[looks] * MANY, **settings) as h:
        exchanges = [Exchange(h.app, body=chat(prompt="x" * LARGE)) for _ in range(MANY)]
        for exchange in exchanges:
            await exchange.end()
        assert (h.app._room.held, h.app._room.spooled) == (0, 0)
    assert not open_files(tmp_path / "tmp")
    return exchanges, max(sizes, key=len)


async def test_bodies_that_are_too_much_together_wait_in_files(house, tmp_path):
    exchanges, files = await waiting(house, tmp_path, body_memory=3 * LARGE)

    assert [exchange.status for exchange in exchanges] == [200] * MANY
    assert len(files) >= MANY - 3


async def test_small_bodies_wait_in_no_file_however_full_memory_is(house, tmp_path):
    async with house(answers, body_memory=0) as h:
        await Exchange(h.app, body=chat()).end()

    assert not (tmp_path / "tmp").exists()


def room_taken(app) -> tuple[int, int]:
    return app._room.held, app._room.spooled


async def test_files_that_are_too_much_together_are_refused_with_when_to_come_back(house):
    async with house(answers, body_memory=0, spool_limit=LARGE) as h:
        exchange = await Exchange(h.app, body=chat(prompt="x" * LARGE)).end()
        assert room_taken(h.app) == (0, 0)

    assert exchange.status == 503
    assert exchange.json["error"]["code"] == "queue_full"
    assert "CORRAL_SPOOL_LIMIT" in exchange.json["error"]["message"]
    assert exchange.header(b"retry-after")
    assert exchange.header(b"connection") == b"close"
    assert not h.scheduler.asked


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
async def test_a_full_disk_is_said_and_is_no_fault_of_ours(house, monkeypatch, error):
    def full(*args) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(body, "write_parts", full)
    async with house(answers, retry_body=1000) as h:
        exchange = await Exchange(h.app, body=chat(prompt="x" * LARGE)).end()
        assert room_taken(h.app) == (0, 0)

    assert exchange.status == 503
    assert exchange.json["error"]["code"] == "queue_full"
    assert "disk" in exchange.json["error"]["message"]


async def test_a_disk_that_is_nearly_full_is_left_to_others(house, monkeypatch):
    monkeypatch.setattr(body, "_KEPT_FREE", 1 << 60)
    async with house(answers, retry_body=1000) as h:
        exchange = await Exchange(h.app, body=chat(prompt="x" * LARGE)).end()

    assert exchange.json["error"]["code"] == "queue_full"


async def test_a_client_that_leaves_in_mid_body_takes_up_no_room(house):
    async with house(answers, retry_body=150_000) as h:
        exchange = Exchange(h.app)
        for _ in range(3):
            exchange.give(b"x" * LARGE, more=True)
        await until(lambda: h.app._room.spooled)
        exchange.leave()
        await exchange.end()

        assert room_taken(h.app) == (0, 0)


async def test_a_compressed_body_is_refused_with_its_reason(house):
    async with house(answers) as h:
        headers = [(b"content-encoding", b"gzip")]
        exchange = await Exchange(h.app, body=gzip.compress(chat()), headers=headers).end()

    assert exchange.status == 400
    assert "Compressed" in exchange.json["error"]["message"]
    assert not h.scheduler.asked
