"""What uvicorn stops before the application is called, and daphne cannot."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.process.serving import served
from tests.process.test_serve_raw_requests import HOST, status_of
from tests.support import prepared
from tests.support.gateway import Gateway

pytestmark = [pytest.mark.slow, pytest.mark.uvicorn_only]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    limits = {"CORRAL_HEADER_TIMEOUT": "2", "CORRAL_MAX_HEADERS": "4096"}
    with served(tmp_path_factory.mktemp("uvicorn"), **limits) as gateway:
        yield gateway


def test_a_client_without_a_key_has_no_body_read(running: Gateway) -> None:
    head = b"POST /v1/embeddings HTTP/1.1\r\nContent-Length: 90000\r\n" + HOST + b"\r\n"

    assert status_of(running, head, b"x") == 401


def test_headers_that_stall_are_ended(running: Gateway) -> None:
    assert status_of(running, b"GET / HTTP/1.1\r\n") == 408


def test_headers_over_the_limit_are_refused(running: Gateway) -> None:
    sent = b"GET /health HTTP/1.1\r\nX: " + b"x" * 5000 + b"\r\n" + HOST + b"\r\n"

    assert status_of(running, sent) == 431


def test_a_websocket_that_is_no_get_is_refused_at_once(running: Gateway) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    head = b"POST /v1/embeddings HTTP/1.1\r\nContent-Length: 2\r\n" + upgrade + HOST + b"\r\n"

    assert status_of(running, head, b"{}") == 400


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_may_ask_for_http_2_in_clear(running: Gateway) -> None:
    """It offers an upgrade with every request; Java's HttpClient does the same by default."""
    key = prepared.state().key
    url = f"http://127.0.0.1:{running.client.port}/v1/embeddings"
    command = ["curl", "--http2", "-s", "-o", "/dev/stderr", "-w", "%{http_code}", "-m", "30"]
    command += ["-H", f"Authorization: Bearer {key}", "-d", '{"model":"nosuch"}', url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == "404"
    assert "model_not_found" in done.stderr
