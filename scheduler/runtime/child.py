"""One child process: spawn it, hear it, end it.

Its pipes are read as the bytes come, whatever it prints: a pipe that nobody reads stops a child
after 64 KiB. That it has ended is learned from the operating system, never from the end of its
output: a grandchild may hold that open.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Protocol, cast

from .child_lines import EXIT_COMMAND
from .engines.base import Command
from .hearing import Stream
from .line_splitter import LineSplitter

logger = logging.getLogger(__name__)

LINE_LIMIT = 1 << 20
LAST_OUTPUT_SECONDS = 1.0
"""How long after its exit a child's last lines may take to arrive."""
GATHER_SECONDS = 0.05
"""Between two looks at a stream that is log only. At its default verbosity a llama-server writes a
dozen lines for an answer, and to be woken for each costs more than all else that one costs here."""
GATHER_PIPE_BYTES = 256 << 10
"""Room for what it writes meanwhile, so that it does not wait for us."""
RUNNER_SECONDS = 5.0
"""How long a runner may take to kill a tree, until it is killed itself."""
OOM_SCORE = 500
"""When the machine runs out of memory the kernel takes a model, not one of our processes."""

RUNNER = Path(__file__).with_name("runner.py")

# setpriv is exec'd away, then sh: the child keeps our pid as its parent's. A parent that died
# before the death signal was set is seen by the comparison: nobody would be left to end the child.
_GUARD = 'ulimit -c 0; [ "$PPID" = "$0" ] && exec "$@"'

Heard = Callable[[bytes, Stream], None]
HeardLog = Callable[[bytes], None]
"""Gets whole lines, with their newlines."""


class Child(Protocol):
    pid: int

    def ask_exit(self) -> None:
        """By its stdin, which it reads once it has loaded."""
        ...

    def kill(self) -> None:
        """SIGKILL to its process group; where a runner stands before it, SIGTERM to that one, which
        kills all that has sprung from it. Harmless when it has ended."""
        ...

    def gather_log(self, heard: HeardLog) -> None:
        """From now on what comes on its stderr is log, and is handed over as it gathers. Harmless
        when it has ended."""
        ...

    async def ended(self) -> int:
        """Its return code, once it is reaped and its output has been read."""
        ...


class Spawn(Protocol):
    async def __call__(self, command: Command, heard: Heard) -> Child:
        """A running child; `heard` gets each line it prints, and where. Raises OSError."""
        ...


def guarded(
    argv: tuple[str, ...], parent: int, setpriv: str | None, *, may_gain: bool = False
) -> tuple[str, ...]:
    """The command line that ends with its parent, however that ends. Unless it `may_gain`, no
    program that it starts gets more rights than it has (sudo and its like)."""
    if setpriv is None:
        return (sys.executable, "-I", str(RUNNER), str(parent), str(int(may_gain)), *argv)
    privileges = () if may_gain else ("--no-new-privs",)
    death = (setpriv, *privileges, "--pdeathsig", "KILL", "--")
    return (*death, "/bin/sh", "-c", _GUARD, str(parent), *argv)


def needs_privileges(devices: Path = Path("/dev")) -> bool:
    """Whether a llama-server has to be let run a program of root's: NVIDIA's driver makes its
    device for computing by one (nvidia-modprobe) at its first use after a boot."""
    return (devices / "nvidiactl").exists() and not (devices / "nvidia-uvm").exists()


async def spawned(command: Command, heard: Heard) -> Child:
    """Start it as the leader of its own session. Call it from the main thread: the death signal is
    bound to the thread that spawned, not to the process."""
    program = command.argv[0]
    if shutil.which(program) is None:
        raise FileNotFoundError(f"{program} is missing or not executable")
    # What a person has chosen as an engine may be a program that needs sudo or its like.
    may_gain = command.has_runner or needs_privileges()
    argv = guarded(command.argv, os.getpid(), shutil.which("setpriv"), may_gain=may_gain)
    # Popen forks by vfork. An event loop's own way copies the page tables of a process that holds
    # all of Django first, which took longer than the program's start (docs/decisions/0008).
    process = subprocess.Popen(  # noqa: ASYNC220 - it returns as soon as the program runs
        argv,
        env=dict(command.env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    child = SpawnedChild(process, heard, has_runner=command.has_runner)
    _prefer_for_oom_killer(child.pid)
    await child.connect()
    return child


class _Output(asyncio.Protocol):
    """One of its streams: line by line, or gathered."""

    _transport: asyncio.ReadTransport
    _heard_log: HeardLog | None = None
    _again: asyncio.TimerHandle | None = None
    _is_last = False

    def __init__(self, heard: Heard, stream: Stream) -> None:
        self._heard = heard
        self._stream = stream
        self._splitter = LineSplitter(LINE_LIMIT)
        self.over = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not by isinstance: uvloop's transports are none of asyncio's classes.
        self._transport = cast(asyncio.ReadTransport, transport)

    def gather(self, heard: HeardLog) -> None:
        self._heard_log = heard

    def hurry(self) -> None:
        """Its child has ended: the rest is read at once."""
        self._is_last = True
        self._go_on()

    def data_received(self, data: bytes) -> None:
        before = self._splitter.dropped
        if self._heard_log is None:
            for line in self._splitter.feed(data):
                self._heard(line, self._stream)
        elif lines := self._splitter.feed_whole(data):
            self._heard_log(lines)
        if self._splitter.dropped > before:
            self._heard(b"(a line of more than %d bytes was dropped)" % LINE_LIMIT, self._stream)
        if self._heard_log is not None and not self._is_last:
            self._transport.pause_reading()
            self._again = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._go_on)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._again is not None:
            self._again.cancel()
        if rest := self._splitter.end():
            self._heard(rest, self._stream)
        self.over.set()

    def _go_on(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
            self._transport.resume_reading()


class SpawnedChild:
    def __init__(
        self, process: subprocess.Popen[bytes], heard: Heard, *, has_runner: bool = False
    ) -> None:
        self._process = process
        self._has_runner = has_runner
        self._outputs = {stream: _Output(heard, stream) for stream in Stream}
        self._transports: list[asyncio.BaseTransport] = []
        self._stdin: asyncio.WriteTransport | None = None
        self._exited = asyncio.Event()
        self.pid = process.pid

    async def connect(self) -> None:
        """To its pipes, and to the news of its end. Where that cannot be had (no descriptor is
        left), it is killed and reaped, and the error raised."""
        process = self._process
        assert process.stdin
        assert process.stdout
        assert process.stderr
        try:
            loop = asyncio.get_running_loop()
            await self._hear(Stream.OUT, process.stdout)
            await self._hear(Stream.ERR, process.stderr)
            self._stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
            self._transports.append(self._stdin)
            pidfd = os.pidfd_open(process.pid)
            loop.add_reader(pidfd, self._note_exit, pidfd)
        except BaseException:
            self._kill_group()
            await asyncio.to_thread(process.wait)
            self._close()
            raise

    async def _hear(self, stream: Stream, pipe: IO[bytes]) -> None:
        output = self._outputs[stream]
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: output, pipe)
        self._transports.append(transport)

    def gather_log(self, heard: HeardLog) -> None:
        stderr = self._process.stderr
        assert stderr
        if stderr.closed:  # it was killed in the moment in which it became ready
            return
        with contextlib.suppress(OSError):  # a user's share of such room is limited: then without
            fcntl.fcntl(stderr, fcntl.F_SETPIPE_SZ, GATHER_PIPE_BYTES)
        self._outputs[Stream.ERR].gather(heard)

    def _close(self) -> None:
        for transport in self._transports:
            transport.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def ask_exit(self) -> None:
        if self._exited.is_set() or self._stdin is None or self._stdin.is_closing():
            return
        self._stdin.write(EXIT_COMMAND)

    def kill(self) -> None:
        if self._exited.is_set():
            return
        if self._has_runner:
            self._process.terminate()
            asyncio.get_running_loop().call_later(RUNNER_SECONDS, self._kill_unless_over)
        else:
            self._kill_group()

    def _kill_unless_over(self) -> None:
        if not self._exited.is_set():
            logger.warning("the runner %d has not ended its tree in time", self.pid)
            self._kill_group()

    async def ended(self) -> int:
        await self._exited.wait()
        try:
            async with asyncio.timeout(LAST_OUTPUT_SECONDS):
                self._outputs[Stream.ERR].hurry()
                for output in self._outputs.values():
                    await output.over.wait()
        except TimeoutError:
            # Someone of its group still holds the pipe, so the group's number is still its own.
            self._kill_group()
        self._close()
        return self._process.wait()  # it is reaped already

    def _note_exit(self, pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        self._process.wait()
        self._exited.set()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def _prefer_for_oom_killer(pid: int) -> None:
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(OOM_SCORE))
    except OSError as failure:
        logger.debug("oom_score_adj of child %d stays as it is: %s", pid, failure)
