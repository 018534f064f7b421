"""Starts the processes, watches them, and stops them in order."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from routerproj.serve.output import Output
from routerproj.serve.probes import ask, scheduler_answers, web_answers
from routerproj.serve.process import Role, SupervisedProcess
from routerproj.serve.restarts import Silence
from scheduler.protocol import Load, Shutdown

POLL_SECONDS = 0.1
PING_SECONDS = 1.0
DEATHS_BEFORE_READY = 3
AFTER_DRAIN_SECONDS = 2.5
"""What a web process may take beyond the drain timeout before it is killed."""

WHOLE_SECONDS = 4.8
"""All is over this long after the last answer, or after the drain timeout: what is left by then is
killed, and children with the scheduler, by their death signal."""


OLD_SCHEDULER_SECONDS = 20.0
"""What a scheduler whose `serve` was killed may take to end its children."""


class CannotStart(Exception):
    """A process keeps dying before all is ready; its output above says why."""


class SchedulerInTheWay(CannotStart):
    """A scheduler that is not ours works on the same CORRAL_VAR."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. The listeners are closed here as soon as a stop is asked for."""

    scheduler: Role
    web: Sequence[Role]
    jobs: Role
    control_socket: Path
    listeners: Sequence[socket.socket]
    url: str
    drain_timeout_seconds: float
    load: str = ""


class Supervisor:
    def __init__(self, plan: Plan, output: Output) -> None:
        self._plan = plan
        self._output = output
        self.scheduler = SupervisedProcess(plan.scheduler, output)
        self.web = [SupervisedProcess(role, output) for role in plan.web]
        self.jobs = SupervisedProcess(plan.jobs, output)
        self._stop_asked = asyncio.Event()
        self._forced = False

    @property
    def processes(self) -> list[SupervisedProcess]:
        return [self.scheduler, *self.web, self.jobs]

    def stop(self) -> None:
        """The first time: in order. The second: at once."""
        if not self._stop_asked.is_set():
            self._output.say("stopping: running answers may end; once more stops at once")
            self._stop_asked.set()
            return
        self._forced = True
        for process in self.processes:
            process.stop(signal.SIGKILL)

    async def run(self) -> bool:
        """Until stopped. True when all ended as asked; raises CannotStart."""
        await self._no_other_scheduler()
        if self._stop_asked.is_set():
            return not self._forced
        runs = {p.name: asyncio.create_task(p.run(), name=p.name) for p in self.processes}
        side = [asyncio.create_task(self._watch_scheduler(), name="watch the scheduler")]
        try:
            await self._until_ready()
            await self._first_to_end([self._stop_asked.wait(), *side])
            await self._end(runs)
        finally:
            await self._end_at_once(runs, side)
        return not self._forced

    async def _until_ready(self) -> None:
        """Also returns when a stop was asked for."""
        while not self._stop_asked.is_set():
            for process in self.processes:
                if process.deaths >= DEATHS_BEFORE_READY:
                    raise CannotStart(f"{process.name} does not start: its lines above say why")
            if await self._is_ready():
                if self._plan.load:
                    await ask(self._plan.control_socket, Load(1, self._plan.load), 5.0)
                self._announce()
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _is_ready(self) -> bool:
        if not all(process.pid for process in self.processes):
            return False
        return await scheduler_answers(self._plan.control_socket) and await web_answers(
            self._plan.url
        )

    def _announce(self) -> None:
        where = {self.scheduler.name: f"  {self._plan.control_socket}"}
        where |= {process.name: f"  {self._plan.url}" for process in self.web}
        for process in self.processes:
            self._output.say(f"  {process.name:<10}pid {process.pid}{where.get(process.name, '')}")
        self._output.say(f"Corral is ready at {self._plan.url}")

    async def _watch_scheduler(self) -> None:
        silence = Silence()
        while True:
            await asyncio.sleep(PING_SECONDS)
            pid = self.scheduler.pid
            if pid is None:
                continue
            answered = await scheduler_answers(self._plan.control_socket)
            if pid == self.scheduler.pid and silence.hangs(
                pid, answered=answered, now=time.monotonic()
            ):
                self._output.say("the scheduler does not answer any more: it is killed")
                self.scheduler.send(signal.SIGKILL)

    async def _end(self, runs: dict[str, asyncio.Task[None]]) -> None:
        """Nothing new comes in; answers end; then those they needed."""
        for listener in self._plan.listeners:
            listener.close()
        latest = time.monotonic() + self._plan.drain_timeout_seconds + WHOLE_SECONDS
        telling = asyncio.create_task(ask(self._plan.control_socket, Shutdown(id=1), 2.0))
        for process in self.web:
            process.stop()
        await asyncio.wait(
            [telling, *(runs[process.name] for process in self.web)],
            timeout=self._plan.drain_timeout_seconds + AFTER_DRAIN_SECONDS,
        )
        for process in (self.scheduler, self.jobs):  # which brings in what web has journalled
            process.stop()
        await asyncio.wait(
            [runs[self.scheduler.name], runs[self.jobs.name]],
            timeout=min(WHOLE_SECONDS, latest - time.monotonic()),
        )

    async def _no_other_scheduler(self) -> None:
        """One whose `serve` was killed ends by itself; one that somebody started does not.

        Raises SchedulerInTheWay. Also returns when a stop was asked for."""
        latest = time.monotonic() + OLD_SCHEDULER_SECONDS
        told = False
        while not self._stop_asked.is_set():
            if not await scheduler_answers(self._plan.control_socket):
                return
            if time.monotonic() >= latest:
                raise SchedulerInTheWay("a scheduler without a `serve` already runs on this state")
            if not told:
                self._output.say("another scheduler still runs on this state: waiting for its end")
                told = True
            await asyncio.sleep(POLL_SECONDS)

    async def _end_at_once(
        self, runs: dict[str, asyncio.Task[None]], side: Sequence[asyncio.Task[None]]
    ) -> None:
        for process in self.processes:
            process.stop(signal.SIGKILL)
        for task in side:
            task.cancel()
        await asyncio.gather(*runs.values(), *side, return_exceptions=True)

    @staticmethod
    async def _first_to_end(waits: Sequence[object]) -> None:
        """Raises what the first to end raised: a watcher that broke ends the whole."""
        tasks = [asyncio.ensure_future(wait) for wait in waits]  # type: ignore[call-overload]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
