"""An answer that broke off ends its connection, under both servers, and is told once in the log."""

from __future__ import annotations

import contextlib
import http.client
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(params=["uvicorn", "daphne"])
def server(request, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-m", "tests.process.cutting_program", request.param]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"CORRAL_VAR": str(tmp_path), "PATH": "/usr/bin:/bin"},
    ) as process:
        assert process.stdout
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def body_of(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with contextlib.closing(connection):
        connection.request("GET", path)
        with connection.getresponse() as answer:
            return answer.read()


def test_a_cut_answer_ends_its_connection_and_never_looks_whole(server):
    _, port = server

    for _ in range(2):  # the server must be able to do it again
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            body_of(port, "/")
    assert body_of(port, "/whole") == b"x" * 1000


def test_the_log_tells_a_cut_answer_in_one_line(server):
    process, port = server
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        body_of(port, "/")

    process.terminate()
    _, log = process.communicate(timeout=30)

    assert log.count("the child died") == 1
    assert "Traceback" not in log
