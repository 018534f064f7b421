"""However `serve` ends, nothing of it stays."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.serving import served
from tests.support.gateway import serve
from tests.support.prepared import MANAGE, clean_environment

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("server", ["uvicorn", "daphne"])
def test_a_stop_with_a_client_that_only_sits_there_is_clean(tmp_path: Path, server: str) -> None:
    with served(tmp_path, "--server", server) as running:
        with socket.create_connection(("127.0.0.1", running.client.port)) as idle:
            idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert idle.recv(12) == b"HTTP/1.1 200"
            running.interrupt()
            running.process.wait(60)

        assert running.processes() == []
    assert running.process.returncode == 0


def test_a_start_after_a_kill_waits_for_what_is_still_ending(tmp_path: Path) -> None:
    with served(tmp_path) as first:
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(60)
        with served(tmp_path) as second:
            second.wait_ready()


def test_a_state_folder_that_cannot_be_made_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with serve(tmp_path / "file" / "var", ["--port", "0"]) as refused:
        refused.process.wait(60)

    assert refused.process.returncode == 1
    assert any(str(tmp_path / "file" / "var") in line for line in refused.output)
    assert not any("Traceback" in line for line in refused.output)


def test_nonsense_in_a_variable_is_said_with_its_name(tmp_path: Path) -> None:
    with serve(tmp_path, ["--port", "0"], {"CORRAL_QUEUE_WAIT": "soon"}) as refused:
        refused.process.wait(60)

    assert refused.process.returncode == 1
    assert refused.output == [
        "manage.py: CORRAL_QUEUE_WAIT='soon' is not a number of seconds, at least 0"
    ]


def test_status_of_nothing_fails(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(MANAGE), "status"],
        env=clean_environment() | {"CORRAL_VAR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert "does not run" in done.stdout
    assert "does not answer" in done.stdout
