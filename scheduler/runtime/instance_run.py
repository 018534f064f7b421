"""One instance's child, from its spawn to its reaping: what the shell knows of it."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from models_registry.launch import LaunchSpec
from scheduler.core.decisions import Reason
from scheduler.core.events import (
    AllocationReported,
    LoadingReported,
    ReadyReported,
    Silent,
    SleepingReported,
)
from scheduler.core.sizes import HOST, NOTHING_GRANTED, DeviceId, FileId, Grant, Need
from scheduler.core.values import Exit, InstanceId, RequestId
from scheduler.protocol import Ended

from .allocated import Allocated, is_plausible
from .child import Child, Spawn
from .child_lines import ChildState, NotUnderstood, Report, text_of
from .child_log import ChildLog
from .engines.base import CannotStart, Command, Engine
from .exits import describe, exit_of
from .figures import is_declared
from .health import HealthWatch
from .hearing import Hearing, InDoubt, NotBelieved, Stream
from .making_ready import BeforeReady, MakingReady
from .memory import by_device
from .rpc_children import Names, need_in_ledger

logger = logging.getLogger(__name__)

SETTLE_EVERY_SECONDS = 0.05
DRAIN_SECONDS = 0.005
DRAIN_STEPS = 3
"""What a child said of its memory before its `ready` may come after it, on the other stream: so
long without a line, and it has come. Nobody is sent to the child before."""
KILLED_FOR_MEMORY = "the kernel killed it: memory was short"

_ANSWERING = frozenset({ChildState.READY, ChildState.SLEEPING})

News = LoadingReported | ReadyReported | AllocationReported | SleepingReported | Silent
Told = Callable[["InstanceRun", News], None]
"""Called when the child is in another state than before, when its load has got on, and when it does
not answer any more."""


class InstanceRun:
    """`run()` is one task. What may be asked before the child is spawned is done when it is."""

    _state: ChildState | None = None
    _has_slept = False  # since it was last ready
    _heard_of = 0  # reports that were believed
    lines = 0  # that it has printed
    _has_loaded = False  # ready, and probed where that is asked for: clients come now
    _heeds_exit = False
    _exit_wanted = False
    _kill_wanted = False

    def __init__(
        self,
        instance: InstanceId,
        spec: LaunchSpec,
        *,
        grant: Grant = NOTHING_GRANTED,
        names: Names = MappingProxyType({}),
        unreported: int = 0,
        socket: Path,
        engine: Engine,
        spawn: Spawn,
        log: ChildLog,
        told: Told,
        watches: Callable[[InstanceRun], Mapping[str, HealthWatch]],
        killed_for_memory: Callable[[], bool],
        totals: Callable[[], Mapping[DeviceId, int]] = dict,
        before_ready: BeforeReady = lambda run: None,
    ) -> None:
        """`totals` are the bytes of the machine's devices, `watches` what its child is watched by.
        `before_ready` is asked at its child's first `ready`, and at that of a wake."""
        self.instance = instance
        self.spec = spec
        self.grant = grant
        self.why = ""
        """Why it is where it is, in words."""
        self._names = names
        self._unreported = unreported
        self._allocated = Allocated()
        # Until its first `ready`: then clients' text comes in the log.
        self._allocates = not is_declared(spec)
        self._totals = totals
        self._held_back: asyncio.TimerHandle | None = None
        """While it is ready, and nobody was told: its log is being drained."""
        self.address = str(socket)
        self.argv: tuple[str, ...] = spec.argv
        self.pid: int | None = None
        self.progress: float | None = None
        self.meta: dict[str, Any] = {}
        self.most_seen: dict[DeviceId, int] = {}
        """Of a preset whose memory is declared: bytes that its processes had together."""
        self.leaving: Reason | None = None
        """Why we end it; None while we do not, and for a child that ends by itself."""
        self.orphans: set[RequestId] = set()
        """Leases whose connection broke: nobody but us can see them end."""
        self.exit = Exit(words="it was stopped before it was started")
        self.over = asyncio.Event()
        self.engine = engine
        self._socket = socket
        self._spawn = spawn
        self._log = log
        self._told = told
        self._watches = watches
        self._killed_for_memory = killed_for_memory
        self._hearing = Hearing()
        self._doubt: asyncio.Task[None] | None = None
        self._making_ready = MakingReady(
            self, before_ready, enter=self._enter, kill=self._kill_child
        )
        self._child: Child | None = None
        self._ready = asyncio.Event()

    @property
    def name(self) -> str:
        return f"instance {self.instance} of {self.spec.preset}"

    @property
    def began(self) -> datetime:
        return self._log.began

    @property
    def asleep(self) -> bool:
        return self._state is ChildState.SLEEPING

    @property
    def serves(self) -> bool:
        """Whether it has a model that was ready for clients."""
        return self._has_loaded and self._state is ChildState.READY

    @property
    def ended(self) -> Ended | None:
        """How it ended; None while it runs."""
        if not self.over.is_set():
            return None
        return Ended(
            by_itself=self.leaving is None,
            reason=self.end_reason,
            exit_code=self.exit.code,
            signal=self.exit.signal,
            words=self.exit_for_clients.words,
        )

    @property
    def exit_for_clients(self) -> Exit:
        """Once it has loaded its log may quote other clients: the record alone has words."""
        return replace(self.exit, words="") if self._has_loaded else self.exit

    @property
    def end_reason(self) -> str:
        if self.leaving is not None:
            return str(self.leaving)
        if self.exit.out_of_memory:
            return "out_of_memory"
        return "crashed" if self._has_loaded else "failed_to_load"

    async def run(self) -> None:
        """Returns when the child is reaped; `exit` then says how it ended."""
        try:
            await self._live()
        except (CannotStart, OSError) as failure:
            logger.error("%s could not be started: %s", self.name, failure)
            self.exit = Exit(words=f"could not be started: {failure}")
        finally:
            self._tell_held_back()
            for side in (self._doubt, self._making_ready.task):
                if side is not None:
                    side.cancel()  # of a child that spoke, and then could not be connected to
            self._log.close()
            self._socket.unlink(missing_ok=True)

    def ask_exit(self) -> None:
        """By stdin, as soon as the child heeds it. One that has never loaded is killed."""
        self._exit_wanted = True
        if not self._has_loaded or self._child is None:
            self.kill()
        elif self._heeds_exit:
            self._child.ask_exit()

    def tell(self, news: News) -> None:
        self._told(self, news)

    def kill(self) -> None:
        self._kill_wanted = True
        if self._child is not None:
            self._child.kill()

    async def _live(self) -> None:
        if self.spec.problem:
            raise CannotStart(self.spec.problem)
        command: Command = self.engine.command(self.spec, self.address, self.grant)
        self.argv = command.shown or command.argv
        self._child = child = await self._spawn(command, self._heard)
        sides = [
            asyncio.create_task(self._settle(child), name=f"settle-{self.instance}"),
            *(
                asyncio.create_task(watch.run(), name=f"{name}-{self.instance}")
                for name, watch in self._watches(self).items()
            ),
        ]
        try:
            self.pid = child.pid
            if self._kill_wanted:
                child.kill()
            returncode = await child.ended()
        except BaseException:
            child.kill()
            await asyncio.shield(child.ended())
            raise
        finally:
            more = (self._doubt, self._making_ready.task)
            sides += [side for side in more if side is not None]
            for side in sides:
                side.cancel()
            await asyncio.wait(sides)
        for side in sides:
            if not side.cancelled():
                side.result()  # a bug in it is a bug of ours
        self.exit = self._exit_of(returncode)
        logger.info("%s has ended: %s, %s", self.name, describe(self.exit), self.end_reason)

    def _exit_of(self, returncode: int) -> Exit:
        by_kernel = (
            returncode == -signal.SIGKILL and not self._kill_wanted and self._killed_for_memory()
        )
        why = [KILLED_FOR_MEMORY] if by_kernel else []
        if self._making_ready.is_probing and self.leaving is None:
            why.append(self._making_ready.problem)
        words = self._log.words()
        return exit_of(
            returncode,
            out_of_memory=by_kernel or self._log.says_out_of_memory(),
            words="\n".join([*why, words] if words else why),
        )

    def should_answer(self) -> bool:
        """A load, also that of a wake, is bounded by its progress, and an exit by its time-out."""
        return self._state in _ANSWERING and not self._exit_wanted and not self._kill_wanted

    async def _settle(self, child: Child) -> None:
        """From its `ready` to when it can be asked to exit."""
        await self._ready.wait()
        while not await self.engine.heeds_exit(self.address):  # noqa: ASYNC110 - it cannot tell
            await asyncio.sleep(SETTLE_EVERY_SECONDS)
        self._heeds_exit = True
        if self._exit_wanted:
            child.ask_exit()

    def _heard(self, line: bytes, stream: Stream) -> None:
        self.lines += 1
        if self._allocates:
            self._allocated.take(text_of(line))
        match self._hearing.hear(line, stream):
            case None:
                if line.strip():
                    self._log.add(line)
            case NotUnderstood(text):
                logger.debug("%s says what we do not know: %.200s", self.name, text)
                self._log.add(line)
            case NotBelieved(report):
                logger.warning("%s: '%s' among its log is no report", self.name, report.state)
                self._log.add(line)
            case InDoubt(report):
                self._ask_about(report, line)
            case Report() as report:
                self._reported(report)

    def _heard_log(self, lines: bytes) -> None:
        self.lines += lines.count(b"\n")
        self._log.add_lines(lines)

    def _ask_about(self, report: Report, line: bytes) -> None:
        """A client may have written it. Only `sleeping` takes something from an instance that is
        loaded, so only that is worth asking the child about; one question at a time."""
        if report.state is not ChildState.SLEEPING or self._state is ChildState.SLEEPING:
            self._reported(report)
        elif self._doubt is None or self._doubt.done():
            self._doubt = asyncio.create_task(
                self._believed_if_asleep(report, line), name=f"doubt-{self.instance}"
            )

    async def _believed_if_asleep(self, report: Report, line: bytes) -> None:
        before = self._heard_of
        asleep = await self.engine.is_asleep(self.address)
        if asleep and self._heard_of == before:
            self._reported(report)
        elif not asleep:
            logger.warning("%s does not sleep, whatever its log says", self.name)
            self._log.add(line)

    def _reported(self, report: Report) -> None:
        self._heard_of += 1
        before = -1.0 if self.progress is None else self.progress
        if report.state is ChildState.LOADING and self._state is not ChildState.READY:
            self.progress = self.engine.progress(report.payload)
        elif report.state is ChildState.READY:
            self.progress = None
            # The first one tells of the model: it is empty after a wake, or a client's.
            self.meta = self.meta or self.engine.meta(report.payload)
            self.address = self.engine.address(report.payload) or self.address
            is_first = not self._ready.is_set()
            if is_first or self._has_slept:  # others a client may have written
                self._has_slept = False
                self._making_ready.begin(probes=is_first and self.spec.readiness_probe)
            self._ready.set()
        if self._making_ready.holds(report.state):
            return
        got_on = self.progress is not None and self.progress > before
        if report.state is not self._state or got_on:
            self._enter(report.state)

    def _enter(self, state: ChildState) -> None:
        self._tell_held_back()
        self._state = state
        match state:
            case ChildState.LOADING:
                self._told(self, LoadingReported(self.instance, self.progress))
            case ChildState.READY:
                self._has_loaded = True
                if self._allocates:
                    self._drain(DRAIN_STEPS)
                else:
                    self._told(self, ReadyReported(self.instance))
            case ChildState.SLEEPING:
                self._has_slept = True
                self._told(self, SleepingReported(self.instance))

    def _drain(self, steps: int, heard: int = -1) -> None:
        """Hold its first `ready` back until its log is quiet and its figures are whole, or `steps`
        are over."""
        unfinished = self._allocated.is_begun and not self._allocated.is_whole
        if steps and (unfinished or self.lines != heard):
            loop = asyncio.get_running_loop()
            again = loop.call_later(DRAIN_SECONDS, self._drain, steps - 1, self.lines)
            self._held_back = again
        else:
            self._tell_held_back()

    def _tell_held_back(self) -> None:
        """No line is read for figures after this, not at a wake either: a client may have written
        it. What wakes takes what it took."""
        if self._held_back is None:
            return
        self._held_back.cancel()
        self._held_back, self._allocates = None, False
        self._tell_allocation()
        if self._child is not None and self._hearing.stderr_is_log:
            self._child.gather_log(self._heard_log)
        self._told(self, ReadyReported(self.instance))

    def _tell_allocation(self) -> None:
        """Where it is whole and can be: else what was predicted stays held. With a verbosity of its
        own it may say none."""
        said = self._allocated.need(FileId(self.spec.model_path))
        if said is None or not self._allocated.is_whole:
            return
        own = dict(said.own)
        own[HOST] = own.get(HOST, 0) + self._unreported
        need = need_in_ledger(Need(tuple(sorted(own.items())), said.mapped), self._names)
        if is_plausible(need, self._totals()):
            self._told(self, AllocationReported(self.instance, need))
        else:
            logger.warning("%s says of its memory what cannot be: %s", self.name, by_device(need))

    def _kill_child(self) -> None:
        """Not `kill()`, where there is a child: it may be dead, of what the kernel shall tell."""
        if self._child is None:
            self.kill()
        else:
            self._child.kill()
