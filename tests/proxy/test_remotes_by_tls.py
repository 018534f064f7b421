"""Remote servers by https: their certificates are verified; and by a proxy, if one is set."""

from __future__ import annotations

import asyncio

from scheduler.protocol import Remote
from tests.support.certificates import authority

from .asking import Exchange, chat
from .remote_house import answers, streams
from .remote_house import gateway as plain_gateway
from .remotes import fake_remote


async def test_a_certificate_of_an_authority_that_is_trusted_is_taken(house, tmp_path, monkeypatch):
    trusted, tls = authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    async with fake_remote(streams, tls=tls) as remote, house(answers) as h:
        h.scheduler.remotes = [remote.remote()]
        exchanges = [await Exchange(h.app, body=chat(stream=True)).end() for _ in range(2)]

        assert [exchange.status for exchange in exchanges] == [200, 200]
        assert remote.connections == 1


async def test_any_other_certificate_is_not(house, tmp_path):
    _, tls = authority(tmp_path)
    async with fake_remote(answers, tls=tls) as remote, house(answers) as h:
        h.scheduler.remotes = [remote.remote()]
        exchange = await Exchange(h.app, body=chat()).end()

        assert exchange.json["error"]["code"] == "upstream_unavailable"
        assert h.scheduler.leases[0].heard_of == ["its certificate cannot be verified"]
        assert remote.received == []


async def test_a_certificate_of_another_host_is_not(house, tmp_path, monkeypatch):
    trusted, tls = authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    async with fake_remote(answers, tls=tls) as remote, house(answers) as h:
        h.scheduler.remotes = [Remote(f"https://127.0.0.1:{remote.port}")]
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.json["error"]["code"] == "upstream_unavailable"


async def test_a_server_without_tls_is_none_by_https(house):
    async with plain_gateway(house, answers) as (h, remote):
        h.scheduler.remotes = [Remote(f"https://localhost:{remote.port}")]
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.json["error"]["code"] == "upstream_unavailable"
    assert remote.received == []


async def test_one_that_connects_and_says_nothing_is_given_up_in_time(house):
    def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(silent, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    async with house(answers, connect_timeout_seconds=0.1) as h:
        h.scheduler.remotes = [Remote(f"https://127.0.0.1:{port}")]
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.json["error"]["code"] == "upstream_unavailable"
    assert h.scheduler.leases[0].heard_of == ["no connection within 0.1 s"]
    server.close()
    for writer in writers:
        writer.transport.abort()


async def test_a_proxy_counts_only_where_it_was_set_for_this(house, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with plain_gateway(house, answers) as (h, remote):
        assert (await Exchange(h.app, body=chat()).end()).status == 200
        assert remote.received[0].line == "POST /v1/chat/completions HTTP/1.1"

    async with fake_remote(answers) as proxy:
        async with plain_gateway(house, answers, upstream_proxy=proxy.url) as (h, remote):
            assert (await Exchange(h.app, body=chat()).end()).status == 200
            assert remote.received == []
        target = f"POST http://localhost:{remote.port}/v1/chat/completions HTTP/1.1"
        assert [received.line for received in proxy.received] == [target]
