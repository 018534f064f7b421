"""A worker that is killed in the middle of a download harms nothing, and the next one goes on."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.prepared import MANAGE, clean_environment, first_state
from tests.support.hub import Hub, hub
from tests.support.polling import eventually

pytestmark = pytest.mark.slow

KILLS = 20
CONTENT = b"GGUF" + random.Random(1).randbytes(3 << 20)
SPEED = 1 << 20
"""Bytes a second: the whole takes three seconds, however often it is interrupted."""


class Worker:
    """Downloads on a state of their own, each step in a process that may be killed."""

    def __init__(self, folder: Path, serving: Hub) -> None:
        self.cache = folder / "cache"
        self.environment = clean_environment() | {
            "CORRAL_VAR": str(folder / "var"),
            "CORRAL_HF_CACHE": str(self.cache),
            "HF_ENDPOINT": serving.url,
            "CORRAL_DOWNLOAD_HOSTS": f"{serving.url},{serving.cdn_url}",
        }
        first_state(folder / "var")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.process.download_zygote"],
            cwd=MANAGE.parent,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._line("ready")

    def start(self, code: str) -> int:
        assert self._process.stdin
        self._process.stdin.write(code + "\n")
        self._process.stdin.flush()
        return int(self._line("pid ").removeprefix("pid "))

    def wait(self, pid: int) -> list[str]:
        """What it said until it ended."""
        said: list[str] = []
        while not (line := self._line("")).startswith(f"ended {pid}"):
            said.append(line)
        return said

    def run(self, code: str) -> list[str]:
        return self.wait(self.start(code))

    def row(self) -> dict[str, Any]:
        said = self.run("import json; say(json.dumps(asking.rows().values().get(), default=str))")
        return dict(json.loads(said[-1]))

    def parts(self) -> list[Path]:
        return list(self.cache.rglob("*.incomplete"))

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _line(self, begins: str) -> str:
        assert self._process.stdout
        while line := self._process.stdout.readline():
            if line.startswith(begins):
                return line.strip()
        raise AssertionError("the process that forks the workers has ended")


@pytest.fixture
def serving() -> Iterator[Hub]:
    with hub() as found:
        found.bytes_per_second = SPEED
        found.repository("team/m", {"m-Q8_0.gguf": CONTENT})
        yield found


@pytest.fixture
def worker(tmp_path: Path, serving: Hub) -> Iterator[Worker]:
    found = Worker(tmp_path, serving)
    try:
        found.run("asking.create('hub', 'team/m', asked_by='a test')")
        yield found
    finally:
        found.close()


def model(worker: Worker) -> list[Path]:
    return list(worker.cache.rglob("m-Q8_0.gguf"))


def test_twenty_kills_at_random_moments_never_spoil_the_file_and_it_is_always_resumed(
    worker: Worker, serving: Hub
) -> None:
    moments = random.Random()
    seen = 0
    for _ in range(KILLS):
        pid = worker.start("work.work(1)")
        time.sleep(moments.uniform(0.0, 0.45))
        os.kill(pid, signal.SIGKILL)
        worker.wait(pid)
        for path in model(worker):
            assert path.read_bytes() == CONTENT, "a file that is not whole has its name"
        for part in worker.parts():
            kept = part.read_bytes()
            assert kept == CONTENT[: len(kept)], "the unfinished file is spoilt"
            assert len(kept) >= seen, "what had come was thrown away"
            seen = len(kept)

    worker.run("work.work(1)")

    row = worker.row()
    assert (row["state"], row["error"]) == ("done", "")
    assert row["bytes_done"] == len(CONTENT)
    [file] = model(worker)
    assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256(CONTENT).digest()
    assert not worker.parts()
    ranges = [int(h["range"][6:-1]) for h in serving.asked_for("/cdn/") if "range" in h]
    assert ranges == sorted(ranges), "it went on where it stood"
    assert ranges[-1] > 0


def test_a_pause_is_heard_within_a_second_and_what_came_is_kept(
    worker: Worker, serving: Hub
) -> None:
    pid = worker.start("work.work(1)")
    eventually(lambda: sum(part.stat().st_size for part in worker.parts()), "bytes come")

    paused = worker.start("asking.pause(1)")
    said = worker.wait(pid)

    assert f"ended {paused}" in said
    row = worker.row()
    kept = worker.parts()[0].stat().st_size
    assert (row["state"], row["files"][0]["done"]) == ("paused", kept)
    assert 0 < kept < len(CONTENT)
    serving.bytes_per_second = 0
    worker.run("asking.resume(1)")
    worker.run("work.work(1)")
    assert worker.row()["state"] == "done"
    assert model(worker)[0].read_bytes() == CONTENT


def test_a_cancelled_one_leaves_nothing(worker: Worker) -> None:
    pid = worker.start("work.work(1)")
    eventually(lambda: sum(part.stat().st_size for part in worker.parts()), "bytes come")
    eventually(lambda: worker.row()["files"], "the row knows its files")

    worker.start("asking.cancel(1)")
    worker.wait(pid)

    assert worker.row()["state"] == "cancelled"
    assert not worker.parts()
    assert not model(worker)


def test_two_downloads_of_one_file_never_write_it_at_once(worker: Worker, serving: Hub) -> None:
    worker.run("asking.create('hub', 'team/m:Q8_0', asked_by='a test')")

    first, second = worker.start("work.work(1)"), worker.start("work.work(2)")
    said = worker.wait(first)
    if f"ended {second}" not in said:
        worker.wait(second)

    said = worker.run("say([*asking.rows().values_list('state', flat=True)])")
    assert said == ["['done', 'done']"]
    assert model(worker)[0].read_bytes() == CONTENT
    assert len(serving.asked_for("/cdn/")) == 1
