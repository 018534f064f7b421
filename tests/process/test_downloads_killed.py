"""A worker that is killed in the middle of a download harms nothing, and the next one goes on."""

from __future__ import annotations

import contextlib
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

from tests.support.hub import Hub, downloads_from, hub
from tests.support.polling import eventually
from tests.support.prepared import MANAGE, clean_environment, first_state

pytestmark = pytest.mark.slow

KILLS = 20
KILLS_OF_THE_JOBS_PROCESS = 3
CONTENT = b"GGUF" + random.Random(1).randbytes(3 << 20)
SPEED = 1 << 20
"""Bytes a second: the whole takes three seconds, however often it is interrupted."""


class Worker:
    """Downloads on a state of their own, each step in a process that may be killed."""

    def __init__(self, folder: Path, serving: Hub) -> None:
        self.cache = folder / "cache"
        self.environment = clean_environment() | downloads_from(serving, folder)
        self.environment["CORRAL_VAR"] = str(folder / "var")
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

    def create(self, target: str) -> int:
        said = self.run(f"say(asking.create('hub', {target!r}, asked_by='a test').pk)")
        return int(said[-1])

    def row(self, download: int) -> dict[str, Any]:
        values = f"asking.rows().values().get(pk={download})"
        said = self.run(f"import json; say(json.dumps({values}, default=str))")
        return dict(json.loads(said[-1]))

    def parts(self, repo: str) -> list[Path]:
        return list(self._folder(repo).rglob("*.incomplete"))

    def came(self, repo: str) -> int:
        return sum(part.stat().st_size for part in self.parts(repo))

    def models(self, repo: str) -> list[Path]:
        return list(self._folder(repo).rglob("*.gguf"))

    def _folder(self, repo: str) -> Path:
        return self.cache / f"models--{repo.replace('/', '--')}"

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


@pytest.fixture(scope="module")
def serving() -> Iterator[Hub]:
    with hub() as found:
        yield found


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, serving: Hub) -> Iterator[Worker]:
    found = Worker(tmp_path_factory.mktemp("downloads"), serving)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def repo(request: pytest.FixtureRequest, serving: Hub) -> str:
    """With one model, for this test alone; the hub is slow, and has been asked for nothing."""
    name = f"team/{request.node.name[:40]}"
    serving.repository(name, {"m-Q8_0.gguf": CONTENT})
    serving.bytes_per_second = SPEED
    serving.asked.clear()
    return name


def test_twenty_kills_at_random_moments_never_spoil_the_file_and_it_is_always_resumed(
    worker: Worker, serving: Hub, repo: str
) -> None:
    moments = random.Random()
    seen = 0
    download = worker.create(repo)
    for number in range(KILLS):
        asked = len(serving.asked_for("/cdn/"))
        pid = worker.start(f"work.work({download})")
        if number % 2:  # else it may be before a byte has come, or while there is no plan
            eventually(
                lambda asked=asked: len(serving.asked_for("/cdn/")) > asked, "bytes are asked for"
            )
        time.sleep(moments.uniform(0.0, 0.2))
        os.kill(pid, signal.SIGKILL)
        worker.wait(pid)
        seen = sound(worker, repo, seen)

    worker.run(f"work.work({download})")

    check_whole(worker, serving, repo, download)


def test_the_jobs_process_itself_may_be_killed_and_its_successor_goes_on(
    worker: Worker, serving: Hub, repo: str
) -> None:
    moments = random.Random()
    seen = 0
    serving.bytes_per_second = SPEED // 2
    download = worker.create(repo)
    for _ in range(KILLS_OF_THE_JOBS_PROCESS):
        asked = len(serving.asked_for("/cdn/"))
        with jobs_process(worker):
            eventually(
                lambda asked=asked: len(serving.asked_for("/cdn/")) > asked,
                "bytes are asked for",
                60,
            )
            time.sleep(moments.uniform(0.0, 0.5))
        seen = sound(worker, repo, seen)

    serving.bytes_per_second = 0
    with jobs_process(worker):
        eventually(lambda: worker.row(download)["state"] == "done", "all has come", 60)

    check_whole(worker, serving, repo, download)


@contextlib.contextmanager
def jobs_process(worker: Worker) -> Iterator[None]:
    """A real one, killed at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, str(MANAGE), "runjobs"], env=worker.environment, stdout=subprocess.DEVNULL
    )
    try:
        yield
        assert process.poll() is None, "it ended by itself"
    finally:
        process.kill()
        process.wait(30)


def sound(worker: Worker, repo: str, seen: int) -> int:
    """How much has come, which is all that `seen` says and is not spoilt."""
    for path in worker.models(repo):
        assert path.read_bytes() == CONTENT, "a file that is not whole has its name"
    for part in worker.parts(repo):
        kept = part.read_bytes()
        assert kept == CONTENT[: len(kept)], "the unfinished file is spoilt"
        assert len(kept) >= seen, "what had come was thrown away"
        seen = len(kept)
    return seen


def check_whole(worker: Worker, serving: Hub, repo: str, download: int) -> None:
    row = worker.row(download)
    assert (row["state"], row["error"]) == ("done", "")
    assert row["bytes_done"] == len(CONTENT)
    [file] = worker.models(repo)
    assert file.read_bytes() == CONTENT
    assert not worker.parts(repo)
    ranges = [int(h["range"][6:-1]) for h in serving.asked_for("/cdn/") if "range" in h]
    assert ranges == sorted(ranges), "it went on where it stood"
    assert ranges[-1] > 0


def test_a_pause_is_heard_and_what_came_is_kept(worker: Worker, serving: Hub, repo: str) -> None:
    download = worker.create(repo)
    pid = worker.start(f"work.work({download})")
    eventually(lambda: worker.came(repo), "bytes come")

    paused = worker.start(f"asking.pause({download})")
    said = worker.wait(pid)

    assert f"ended {paused}" in said
    row = worker.row(download)
    kept = worker.came(repo)
    assert (row["state"], row["files"][0]["done"]) == ("paused", kept)
    assert 0 < kept < len(CONTENT)
    serving.bytes_per_second = 0
    worker.run(f"asking.resume({download})")
    worker.run(f"work.work({download})")
    assert worker.row(download)["state"] == "done"
    assert worker.models(repo)[0].read_bytes() == CONTENT


def test_a_cancelled_one_leaves_nothing(worker: Worker, repo: str) -> None:
    download = worker.create(repo)
    pid = worker.start(f"work.work({download})")
    eventually(lambda: worker.came(repo), "bytes come")

    worker.start(f"asking.cancel({download})")
    worker.wait(pid)

    assert worker.row(download)["state"] == "cancelled"
    assert not worker.parts(repo)
    assert not worker.models(repo)


def test_a_file_that_the_system_lets_grow_no_further_is_kept_for_a_retry(
    worker: Worker, serving: Hub, repo: str
) -> None:
    """RLIMIT_FSIZE in place of a full disk: the write itself fails."""
    serving.bytes_per_second = 0
    download = worker.create(repo)
    limit = len(CONTENT) - 100_000

    worker.run(
        f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit},) * 2);"
        f" work.work({download})"
    )

    row = worker.row(download)
    assert row["state"] == "failed"
    assert "there is no room" in row["error"]
    assert "bytes are missing" in row["error"]
    assert 0 < worker.came(repo) <= limit
    worker.run(f"asking.resume({download})")
    worker.run(f"work.work({download})")
    assert worker.row(download)["state"] == "done"
    assert worker.models(repo)[0].read_bytes() == CONTENT


def test_two_downloads_of_one_file_never_write_it_at_once(
    worker: Worker, serving: Hub, repo: str
) -> None:
    downloads = [worker.create(repo), worker.create(f"{repo}:Q8_0")]

    first, second = (worker.start(f"work.work({download})") for download in downloads)
    said = worker.wait(first)
    if f"ended {second}" not in said:
        worker.wait(second)

    assert [worker.row(download)["state"] for download in downloads] == ["done", "done"]
    assert worker.models(repo)[0].read_bytes() == CONTENT
    assert len(serving.asked_for("/cdn/")) == 1
