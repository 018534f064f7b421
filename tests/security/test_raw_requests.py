"""G1: what no honest client sends, byte by byte, to a whole gateway under each server.

Of each case it must hold that nothing says yes, neither to it nor to the good request that is
smuggled in behind it. What one server passes on and the other refuses by itself is refused all the
same.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Gateway, gateway

HOST = b"Host: localhost\r\n"
TARGETS = [b"/health", b"/v1/models", b"/v1/chat/completions", b"/admin/login/", b"/static/x.css"]
ANSWER = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


@pytest.fixture(scope="module", params=["uvicorn", "daphne"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    env = {"CORRAL_HEADER_TIMEOUT": "2", "CORRAL_MAX_HEADERS": "4096", "CORRAL_BODY_TIMEOUT": "2"}
    folder: Path = tmp_path_factory.mktemp(f"raw-{request.param}")
    with gateway(folder, env=env, models={"alpha": {"seed": 1}}, server=request.param) as started:
        yield started


SMUGGLED = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
"""Answered with 200, at once, if anybody takes it for a request."""


def cases() -> Iterator[tuple[str, bytes]]:
    """A name and the bytes of each."""
    for target in TARGETS:
        for name, sent in of_a_target(target, SMUGGLED):
            yield f"{target.decode()} {name}", sent
    for name, target in ODD_TARGETS.items():
        for method in (b"GET", b"POST"):
            yield f"{method.decode()} target {name}", request(method, target, HOST)


def request(method: bytes, target: bytes, headers: bytes, rest: bytes = b"") -> bytes:
    return method + b" " + target + b" HTTP/1.1\r\n" + headers + b"\r\n" + rest


ODD_TARGETS = {
    "absolute": b"http://evil.example/admin/login/",
    "absolute with ours": b"http://localhost/admin/login/",
    "authority": b"localhost:80",
    "star": b"*",
    "two slashes": b"//admin/login/",
    "dots": b"/v1/../admin/login/",
    "dots encoded": b"/v1/%2e%2e/admin/login/",
    "dots half encoded": b"/v1/.%2E/admin/login/",
    "dots twice encoded": b"/v1/%252e%252e/admin/login/",
    "dot": b"/v1/./models",
    "slash encoded": b"/admin%2flogin/",
    "backslash": b"/v1\\models",
    "backslash encoded": b"/v1%5c..%5cadmin",
    "nul": b"/admin/%00",
    "newline encoded": b"/v1/%0d%0aX:y",
    "del": b"/v1/%7f",
    "no slash": b"admin/login/",
    "empty": b"",
    "userinfo": b"http://user@localhost/health",
    "other scheme": b"file:///etc/passwd",
    "raw nul": b"/v1/\x00",
    "raw tab": b"/v1/\tmodels",
    "raw space": b"/v1/ models",
    "raw cr": b"/v1/\rmodels",
}


def of_a_target(target: bytes, second: bytes) -> Iterator[tuple[str, bytes]]:
    for name, headers in ODD_HEADERS.items():
        for method in (b"GET", b"POST"):
            yield f"{method.decode()} {name}", request(method, target, headers, second)
    for (one, first), (other, then) in itertools.permutations(LENGTHS.items(), 2):
        sent = request(b"POST", target, HOST + first + then, b"0\r\n\r\n" + second)
        yield f"{one} and {other}", sent
    for name, body in BAD_CHUNKS.items():
        head = request(b"POST", target, HOST + b"Transfer-Encoding: chunked\r\n")
        yield f"chunk {name}", head + body + second


LENGTHS = {
    "length 0": b"Content-Length: 0\r\n",
    "length 5": b"Content-Length: 5\r\n",
    "chunked": b"Transfer-Encoding: chunked\r\n",
    "xchunked": b"Transfer-Encoding: xchunked\r\n",
    "identity": b"Transfer-Encoding: identity\r\n",
}
ODD_HEADERS = {
    "two hosts": HOST + b"Host: evil.example\r\n",
    "two same hosts": HOST + HOST,
    "no host": b"",
    "host with path": b"Host: gw/#@evil\r\n",
    "host with user": b"Host: user@localhost\r\n",
    "host with blank": b"Host: local host\r\n",
    "empty host": b"Host:\r\n",
    "two keys": HOST + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n",
    "root path": HOST + b"Daphne-Root-Path: /v1\r\n",
    "length signed": HOST + b"Content-Length: +5\r\n",
    "length negative": HOST + b"Content-Length: -1\r\n",
    "length hex": HOST + b"Content-Length: 0x5\r\n",
    "length list": HOST + b"Content-Length: 5, 5\r\n",
    "length float": HOST + b"Content-Length: 5.0\r\n",
    "length huge": HOST + b"Content-Length: 99999999999999999999\r\n",
    "length letters": HOST + b"Content-Length: five\r\n",
    "encoding twice": HOST + b"Transfer-Encoding: chunked, chunked\r\n",
    "encoding gzip": HOST + b"Transfer-Encoding: gzip, chunked\r\n",
    "encoding after": HOST + b"Transfer-Encoding: chunked, identity\r\n",
    "encoding vertical tab": HOST + b"Transfer-Encoding: \x0bchunked\r\n",
    "encoding quoted": HOST + b'Transfer-Encoding: "chunked"\r\n',
    "blank before colon": HOST + b"Content-Length : 5\r\n",
    "name with blank": HOST + b"Content Length: 5\r\n",
    "name empty": HOST + b": 5\r\n",
    "no colon": HOST + b"Nonsense\r\n",
    "nul in value": HOST + b"X-A: a\x00b\r\n",
    "cr in value": HOST + b"X-A: a\rb\r\n",
    "line folded first": b" Host: localhost\r\n" + HOST,
    "too long": HOST + b"X-A: " + b"a" * 20_000 + b"\r\n",
    "too many": HOST + b"A: b\r\n" * 3000,
    "expect nonsense": HOST + b"Content-Length: 5\r\nContent-Length: 6\r\nExpect: 100-continue\r\n",
}
BAD_CHUNKS = {
    "hex prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "signed": b"+5\r\nhello\r\n0\r\n\r\n",
    "negative": b"-5\r\nhello\r\n0\r\n\r\n",
    "blank": b" 5\r\nhello\r\n0\r\n\r\n",
    "letters": b"zz\r\nhello\r\n0\r\n\r\n",
    "underscore": b"1_0\r\nhello\r\n0\r\n\r\n",
    "huge": b"f" * 40 + b"\r\nhello\r\n0\r\n\r\n",
    "too short": b"3\r\nhello\r\n0\r\n\r\n",
    "empty size": b"\r\nhello\r\n0\r\n\r\n",
    "nul": b"5\x00\r\nhello\r\n0\r\n\r\n",
}


PATIENCE_SECONDS = 0.5
"""Where a server waits for more, which never comes."""


def statuses(running: Gateway, sent: bytes) -> list[int]:
    """Of all answers on one connection. The client closes it only when nothing more is said: a
    server drops what a client has left."""
    received = b""
    with socket.create_connection(("127.0.0.1", running.client.port), timeout=10) as connection:
        connection.settimeout(PATIENCE_SECONDS)
        with contextlib.suppress(ConnectionError, TimeoutError):
            connection.sendall(sent)
            while part := connection.recv(1 << 16):
                received += part
    return [int(status) for status in ANSWER.findall(received)]


REFUSING = {400, 401, 403, 404, 405, 408, 411, 413, 414, 417, 426, 431, 501, 505}


def test_none_of_them_is_answered_with_yes_and_nothing_behind_them_at_all(
    running: Gateway,
) -> None:
    asked = list(cases())
    wrong = {
        name: told for name, sent in asked if not set(told := statuses(running, sent)) <= REFUSING
    }

    assert len(asked) > 400
    assert wrong == {}
    assert not any("Traceback" in line for line in running.output)


def test_the_request_that_they_try_to_smuggle_is_a_good_one(running: Gateway) -> None:
    """Otherwise nothing would be shown by its not being answered."""
    assert statuses(running, SMUGGLED) == [200]


def test_two_good_ones_behind_each_other_are_two_answers(running: Gateway) -> None:
    assert statuses(running, request(b"GET", b"/health", HOST) + SMUGGLED) == [200, 200]
