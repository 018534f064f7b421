"""What a gateway's children take of the host's memory, and what RPC servers hold for them, as the
kernel has it, again and again."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.support.gateway import Gateway

EVERY_SECONDS = 0.05
PROC = Path("/proc")


@dataclass
class Watched:
    """At each look: the bytes of all children together, what is theirs alone and each file once;
    how many there were; and by RPC server what it has taken since the first look."""

    host: list[int] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    servers: list[dict[str, int]] = field(default_factory=list)


@contextmanager
def memory_watched(running: Gateway, servers: Sequence[str] = ()) -> Iterator[Watched]:
    """Looks every 50 ms until the block ends, at RPC `servers` (host:port) too. The scheduler must
    not be started anew in it, and nothing may use these servers at its beginning."""
    scheduler, seen, over = running.pid("scheduler"), Watched(), threading.Event()
    pids = {server: _listens_on(server) for server in servers}
    before = {server: _status(pid)["VmRSS"] for server, pid in pids.items()}

    def watch() -> None:
        while not over.wait(EVERY_SECONDS):
            taken, children = taken_by_children(scheduler)
            seen.host.append(taken)
            seen.children.append(children)
            seen.servers.append(
                {server: _status(pid)["VmRSS"] - before[server] for server, pid in pids.items()}
            )

    watcher = threading.Thread(target=watch, name="memory watch")
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def taken_by_children(scheduler: int) -> tuple[int, int]:
    """Bytes, and of how many. A model's file counts with all that is mapped of it, of which no more
    can be in memory; what is in memory of programs and libraries, which all share, counts as in the
    one that has most of it."""
    own, programs, models, count = 0, 0, dict[str, int](), 0
    for pid in _children(scheduler):
        try:
            status, maps = _status(pid), _mapped_models(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has exited meanwhile
        own += status.get("RssAnon", 0) + status.get("RssShmem", 0)
        programs = max(programs, status.get("RssFile", 0) - sum(maps.values()))
        models |= {file: max(size, models.get(file, 0)) for file, size in maps.items()}
        count += 1
    return own + programs + sum(models.values()), count


def _listens_on(server: str) -> int:
    """The pid of the RPC server that was started for this host:port."""
    port = server.rpartition(":")[2]
    return next(
        process.pid
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "ggml-rpc-server" and port in process.info["cmdline"]
    )


def _children(parent: int) -> list[int]:
    return [
        int(pid)
        for task in (PROC / str(parent) / "task").iterdir()
        for pid in (task / "children").read_text().split()
    ]


def _status(pid: int) -> dict[str, int]:
    rows = (line.split() for line in (PROC / str(pid) / "status").read_text().splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if row[2:] == ["kB"]}


def _mapped_models(pid: int) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for line in (PROC / str(pid) / "maps").read_text().splitlines():
        if line.endswith(".gguf"):
            span, *_, file = line.split(maxsplit=5)
            begin, end = (int(each, 16) for each in span.split("-"))
            sizes[file] = sizes.get(file, 0) + end - begin
    return sizes
