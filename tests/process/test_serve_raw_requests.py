"""What no honest client sends, byte by byte, to a whole gateway under both servers."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
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
    limits = {
        "CORRAL_MAX_BODY": "100000",
        "CORRAL_HEADER_TIMEOUT": "2",
        "CORRAL_MAX_HEADERS": "4096",
    }
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


# What uvicorn stops before the application is called, and daphne cannot


@pytest.mark.uvicorn_only
def test_a_client_without_a_key_has_no_body_read(running: Gateway) -> None:
    head = b"POST /v1/embeddings HTTP/1.1\r\nContent-Length: 90000\r\n" + HOST + b"\r\n"

    assert status_of(running, head, b"x") == 401


@pytest.mark.uvicorn_only
def test_headers_that_stall_are_ended(running: Gateway) -> None:
    assert status_of(running, b"GET / HTTP/1.1\r\n") == 408


@pytest.mark.uvicorn_only
def test_headers_over_the_limit_are_refused(running: Gateway) -> None:
    sent = b"GET /health HTTP/1.1\r\nX: " + b"x" * 5000 + b"\r\n" + HOST + b"\r\n"

    assert status_of(running, sent) == 431


@pytest.mark.uvicorn_only
def test_a_websocket_that_is_no_get_is_refused_at_once(running: Gateway) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    head = b"POST /v1/embeddings HTTP/1.1\r\nContent-Length: 2\r\n" + upgrade + HOST + b"\r\n"

    assert status_of(running, head, b"{}") == 400


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.uvicorn_only
def test_curl_may_ask_for_http_2_in_clear(running: Gateway) -> None:
    """It offers an upgrade with every request; Java's HttpClient does the same by default."""
    key = prepared.state().key
    url = f"http://127.0.0.1:{running.client.port}/v1/embeddings"
    command = ["curl", "--http2", "-s", "-o", "/dev/stderr", "-w", "%{http_code}", "-m", "30"]
    command += ["-H", f"Authorization: Bearer {key}", "-d", '{"model":"nosuch"}', url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == "404"
    assert "model_not_found" in done.stderr
