"""What no honest client sends, byte by byte, to a whole gateway under both servers."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from tests.process.serving import served
from tests.support import prepared
from tests.support.gateway import Gateway

pytestmark = pytest.mark.slow

HOST = b"Host: localhost\r\n"


@pytest.fixture(scope="module", params=["uvicorn", "daphne"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    limits = {"CORRAL_MAX_BODY": "100000", "CORRAL_HEADER_TIMEOUT": "2"}
    folder = tmp_path_factory.mktemp("raw")
    with served(folder, "--server", request.param, **limits) as gateway:
        yield gateway


def status_of(running: Gateway, *parts: bytes) -> int:
    """0 when the connection is closed without an answer."""
    with socket.create_connection(("127.0.0.1", running.client.port), timeout=30) as connection:
        try:
            for part in parts:
                connection.sendall(part)
            line = connection.makefile("rb").readline()
        except ConnectionError:
            return 0
    return int(line.split()[1]) if line else 0


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /admin/login/ HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET /admin/login/ HTTP/1.1\r\n\r\n",
        b"GET /admin/login/ HTTP/1.1\r\nHost: gw/#@evil\r\n\r\n",
        b"GET http://evil.example/admin/login/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /public/admin/login/ HTTP/1.1\r\nDaphne-Root-Path: /public\r\n" + HOST + b"\r\n",
        b"GET /v1/../admin/login/ HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /v1/%2e%2e/admin/login/ HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /admin%2flogin/ HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /admin/%00 HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET //admin/login/ HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /v1/models HTTP/1.1\r\nAuthorization: a\r\nAuthorization: b\r\n" + HOST + b"\r\n",
        b"POST /v1/x HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
        + HOST
        + b"\r\n0\r\n\r\n",
        b"POST /v1/x HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n" + HOST + b"\r\n",
        b"POST /v1/x HTTP/1.1\r\nContent-Length: +5\r\n" + HOST + b"\r\nhello",
        b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n" + HOST + b"\r\n",
    ],
    ids=lambda sent: sent[:60].decode(),
)
def test_it_is_refused(running: Gateway, sent: bytes) -> None:
    assert status_of(running, sent) == 400


def test_a_plain_request_is_not(running: Gateway) -> None:
    assert status_of(running, b"GET /admin/login/ HTTP/1.1\r\n" + HOST + b"\r\n") == 200


@pytest.mark.parametrize("header", [b"X-Script-Name", b"X-Forwarded-Prefix"])
def test_a_prefix_from_a_client_changes_no_path(running: Gateway, header: bytes) -> None:
    sent = b"GET /public/admin/login/ HTTP/1.1\r\n" + header + b": /public\r\n" + HOST + b"\r\n"

    assert status_of(running, sent) == 404


def test_djangos_paths_answer_allowed_hosts_only(running: Gateway) -> None:
    sent = b"GET /admin/login/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"

    assert status_of(running, sent) == 403
    assert not any("Traceback" in line for line in running.output)


def test_with_a_key_any_host_may_be_named(running: Gateway) -> None:
    host = {"Host": "10.1.2.3:8080"}
    key = prepared.state().key

    assert running.client.request("GET", "/v1/models", key=key, headers=host).status == 200


def test_a_body_over_the_limit_is_refused(running: Gateway) -> None:
    head = b"POST /v1/embeddings HTTP/1.1\r\nContent-Length: 200000\r\n" + HOST + b"\r\n"

    assert status_of(running, head, b"x" * 200_000) == 413


def test_a_body_over_the_limit_in_chunks_is_refused(running: Gateway) -> None:
    key = prepared.state().key
    head = (
        b"POST /v1/embeddings HTTP/1.1\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer "
        + key.encode()
        + b"\r\n"
        + HOST
        + b"\r\n"
    )
    chunk = b"2710\r\n" + b"x" * 10_000 + b"\r\n"

    assert status_of(running, head, *[chunk] * 12, b"0\r\n\r\n") == 413


def test_the_second_of_two_pipelined_requests_is_checked_too(running: Gateway) -> None:
    first = b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n"
    second = b"GET /v1/../health HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"
    with socket.create_connection(("127.0.0.1", running.client.port), timeout=30) as connection:
        connection.sendall(first + second)
        answers = connection.makefile("rb").read()

    assert re.findall(rb"HTTP/1\.1 (\d+) ", answers) == [b"200", b"400"]
