"""One supervised process: started, read, started again when it dies, told to stop."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from routerproj.serve.output import Output
from routerproj.serve.pulse import Pulse
from routerproj.serve.restarts import BackOff, Silence

# In its own session: the terminal's Ctrl-C is for `serve`, which says it to each in its turn. With
# a parent-death signal, so that `kill -9` of `serve` ends them too; the shell closes the gap before
# it is set, and `exec` leaves nothing of the shell.
_UNLESS_ORPHANED = '[ "$PPID" = "$0" ] && exec "$@"'


LAST_LINES_SECONDS = 1.0
LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    pass_fds: tuple[int, ...] = ()
    heartbeat: bool = False
    """Whether it takes `--heartbeat FD` and beats; one that falls silent is killed."""


def death_signal_available() -> bool:
    return shutil.which("setpriv") is not None


def wrapped(argv: Sequence[str]) -> list[str]:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return list(argv)
    shell = ["/bin/sh", "-c", _UNLESS_ORPHANED, str(os.getpid())]
    return [setpriv, "--pdeathsig", "TERM", "--", *shell, *argv]


class SupervisedProcess:
    def __init__(
        self, role: Role, output: Output, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = role.name
        self.pid: int | None = None
        self.deaths = 0
        self._role = role
        self._output = output
        self._clock = clock
        self._back_off = BackOff()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Until `stop` and the process is gone."""
        while not self._stopping.is_set():
            began = self._clock()
            how = await self._run_once()
            if self._stopping.is_set():
                return
            self.deaths += 1
            delay = self._back_off.delay_after(self._clock() - began)
            self._output.say(f"{self.name} {how}; it is started again in {delay:.1f} s")
            await self._unless_stopped(delay)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """No more starts; the running one gets the signal."""
        self._stopping.set()
        self.send(number)

    def send(self, number: int) -> None:
        if self.pid is None:
            return
        try:
            if number == signal.SIGKILL:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            pass  # it went first

    async def _run_once(self) -> str:
        """How it ended, in words."""
        with Pulse() as pulse:
            return await self._run_child(pulse)

    async def _run_child(self, pulse: Pulse) -> str:
        beats = ["--heartbeat", str(pulse.writing)] if self._role.heartbeat else []
        try:
            child = await asyncio.create_subprocess_exec(
                *wrapped([*self._role.argv, *beats]),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=dict(self._role.env),
                pass_fds=(*self._role.pass_fds, *([pulse.writing] if beats else [])),
                start_new_session=True,
            )
        except OSError as error:
            return f"could not be started: {error}"
        self.pid = child.pid
        if self._stopping.is_set():
            self.send(signal.SIGKILL)  # the stop came while it was being started
        try:
            assert child.stdout is not None
            printing = asyncio.create_task(self._print(child.stdout))
            watching = asyncio.create_task(self._watch(child.pid, pulse)) if beats else None
            code = await child.wait()
            if watching is not None:
                watching.cancel()
            # Not until the end of the pipe: a grandchild may hold it.
            await asyncio.wait({printing}, timeout=LAST_LINES_SECONDS)
            printing.cancel()
            return _how_it_ended(code)
        finally:
            self.pid = None

    async def _watch(self, pid: int, pulse: Pulse) -> None:
        silence = Silence()
        clock = 0.0
        while True:
            began = self._clock()
            await asyncio.sleep(LOOK_SECONDS)
            # While `serve` was stopped itself, or the whole machine was, nobody was silent.
            clock += min(self._clock() - began, 2 * LOOK_SECONDS)
            if silence.hangs(pid, answered=pulse.heard(), now=clock):
                self._output.say(f"{self.name} does not answer any more: it is killed")
                self.send(signal.SIGKILL)
                return

    async def _print(self, stream: asyncio.StreamReader) -> None:
        lines = self._output.of(self.name)
        while data := await stream.read(1 << 16):
            lines.feed(data)
        lines.end()

    async def _unless_stopped(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    return f"was ended by {signal.Signals(-code).name}"
