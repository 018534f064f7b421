"""One child process: spawn it, hear it, end it.

Its pipes are read as the bytes come, whatever it prints: a pipe that nobody reads stops a child
after 64 KiB. That it has ended is learned from the operating system, never from the end of its
output: a grandchild may hold that open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

from .child_lines import EXIT_COMMAND
from .engines.base import Command
from .hearing import Stream
from .line_splitter import LineSplitter

logger = logging.getLogger(__name__)

LINE_LIMIT = 1 << 20
LAST_OUTPUT_SECONDS = 1.0
"""How long after its exit a child's last lines may take to arrive."""
OOM_SCORE = 500
"""When the machine runs out of memory the kernel takes a model, not one of our processes."""

RUNNER = Path(__file__).with_name("runner.py")

# setpriv is exec'd away, then sh: the child keeps our pid as its parent's. A parent that died
# before the death signal was set is seen by the comparison: nobody would be left to end the child.
_GUARD = 'ulimit -c 0; [ "$PPID" = "$0" ] && exec "$@"'

Heard = Callable[[bytes, Stream], None]


class Child(Protocol):
    pid: int

    def ask_exit(self) -> None:
        """By its stdin, which it reads once it has loaded."""
        ...

    def kill(self) -> None:
        """SIGKILL to its process group. Harmless when it has ended."""
        ...

    async def ended(self) -> int:
        """Its return code, once it is reaped and its output has been read."""
        ...


class Spawn(Protocol):
    async def __call__(self, command: Command, heard: Heard) -> Child:
        """A running child; `heard` gets each line it prints, and where. Raises OSError."""
        ...


def guarded(argv: tuple[str, ...], parent: int, setpriv: str | None) -> tuple[str, ...]:
    """The command line that ends with its parent, however that ends."""
    if setpriv is None:
        return (sys.executable, "-I", str(RUNNER), str(parent), *argv)
    death = (setpriv, "--pdeathsig", "KILL", "--")
    return (*death, "/bin/sh", "-c", _GUARD, str(parent), *argv)


async def spawned(command: Command, heard: Heard) -> Child:
    """Start it as the leader of its own session. Call it from the main thread: the death signal is
    bound to the thread that spawned, not to the process."""
    program = command.argv[0]
    if shutil.which(program) is None:
        raise FileNotFoundError(f"{program} is missing or not executable")
    argv = guarded(command.argv, os.getpid(), shutil.which("setpriv"))
    loop = asyncio.get_running_loop()
    transport, pipes = await loop.subprocess_exec(
        lambda: _Pipes(heard), *argv, env=dict(command.env), start_new_session=True
    )
    child = SpawnedChild(transport, pipes)
    _prefer_for_oom_killer(child.pid)
    return child


class _Pipes(asyncio.SubprocessProtocol):
    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._splitters = {stream: LineSplitter(LINE_LIMIT) for stream in Stream}
        self._open = set(Stream)
        self.exited = asyncio.Event()
        self.silent = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        stream = Stream(fd)
        splitter = self._splitters[stream]
        before = splitter.dropped
        for line in splitter.feed(data):
            self._heard(line, stream)
        if splitter.dropped > before:
            self._heard(b"(a line of more than %d bytes was dropped)" % LINE_LIMIT, stream)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd not in self._open:
            return  # its stdin
        stream = Stream(fd)
        if rest := self._splitters[stream].end():
            self._heard(rest, stream)
        self._open.discard(stream)
        if not self._open:
            self.silent.set()

    def process_exited(self) -> None:
        self.exited.set()


class SpawnedChild:
    def __init__(self, transport: asyncio.SubprocessTransport, pipes: _Pipes) -> None:
        self._transport = transport
        self._pipes = pipes
        self.pid = transport.get_pid()

    def ask_exit(self) -> None:
        stdin = self._transport.get_pipe_transport(0)
        if self._pipes.exited.is_set() or stdin is None or stdin.is_closing():
            return
        cast(asyncio.WriteTransport, stdin).write(EXIT_COMMAND)

    def kill(self) -> None:
        if not self._pipes.exited.is_set():
            self._kill_group()

    async def ended(self) -> int:
        await self._pipes.exited.wait()
        try:
            async with asyncio.timeout(LAST_OUTPUT_SECONDS):
                await self._pipes.silent.wait()
        except TimeoutError:
            # Someone of its group still holds the pipe, so the group's number is still its own.
            self._kill_group()
        self._transport.close()
        returncode = self._transport.get_returncode()
        if returncode is None:
            raise RuntimeError(f"child {self.pid} has exited without a return code")
        return returncode

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def _prefer_for_oom_killer(pid: int) -> None:
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(OOM_SCORE))
    except OSError as failure:
        logger.debug("oom_score_adj of child %d stays as it is: %s", pid, failure)
