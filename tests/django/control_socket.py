"""A scheduler as it is on the wire: a Unix socket that answers each operation as it is told."""

from __future__ import annotations

import socketserver
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from models_registry import ports
from models_registry.launch import LaunchSpec
from models_registry.ports import SchedulerRefused
from scheduler.ports import ControlSocketScheduler
from scheduler.protocol import (
    CountedState,
    CounterState,
    DevicesState,
    ErrorBody,
    Explained,
    FitAnswer,
    Fitting,
    Operation,
    Reply,
    SnapshotState,
    WaitersPage,
)

EMPTY = SnapshotState(1, 0, 4, False, [], [], [])
WAITING = Explained(
    state="waiting",
    why="its model is being loaded",
    request="mine-1",
    preset="b",
    tenant="default",
    kind="post",
    priority="normal",
    waited=1.5,
    holdup="load",
    turn=0,
    position=1,
    seconds=4.0,
)
FITS = FitAnswer("b", False, Fitting("host", context=4096), Fitting("host", context=4096))


class StandInScheduler:
    """`asked` are the operations so far. `refuses` answers all but snapshots and reloads."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.snapshot = EMPTY
        self.waiters = WaitersPage("", 0, [])
        self.explained = WAITING
        self.devices = DevicesState([])
        self.fits = FITS
        self.refuses: ErrorBody | None = None
        self.counted: list[CounterState] = []
        self.loaded = False
        self.instances = 1
        self.asked: list[Any] = []
        self.measured: list[str] = []
        self.edited: list[LaunchSpec] = []

    def reply(self, line: bytes) -> Reply:
        operation: Any = msgspec.json.decode(line, type=Operation)
        self.asked.append(operation)
        name = type(operation).__name__
        if name == "Snapshot":
            return Reply(operation.id, ok=msgspec.to_builtins(self.snapshot))
        if self.refuses is not None and name != "Reload":
            return Reply(operation.id, error=self.refuses)
        if name == "Load":
            loaded = self.loaded or operation.wait
            return Reply(operation.id, ok={"instance": 1} if loaded else {"queued": True})
        if name == "Waiters":
            return Reply(operation.id, ok=msgspec.to_builtins(self.waiters))
        if name == "Explain":
            return Reply(operation.id, ok=msgspec.to_builtins(self.explained))
        if name == "Devices":
            return Reply(operation.id, ok=msgspec.to_builtins(self.devices))
        if name == "Fit":
            return Reply(operation.id, ok=msgspec.to_builtins(self.fits))
        if name == "Counted":
            known = [each for each in self.counted if each.counter in operation.counters]
            return Reply(operation.id, ok=msgspec.to_builtins(CountedState(known)))
        if name == "Unload":
            return Reply(operation.id, ok={"instances": self.instances})
        return Reply(operation.id, ok={})

    def times(self, name: str) -> int:
        return sum(type(operation).__name__ == name for operation in self.asked)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def stand_in_scheduler() -> Iterator[StandInScheduler]:
    # Not pytest's own folder: a socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="corral-") as folder:
        scheduler = StandInScheduler(Path(folder) / "control.sock")

        class Answer(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    self.wfile.write(msgspec.json.encode(scheduler.reply(line)) + b"\n")

        with _Server(str(scheduler.socket), Answer) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield scheduler
            finally:
                server.shutdown()
                thread.join()


class _Through(ControlSocketScheduler):
    """The real one, but for the jobs' queue, which is a file of its own, and for reading models."""

    def __init__(self, scheduler: StandInScheduler) -> None:
        super().__init__(scheduler.socket)
        self._scheduler = scheduler

    def order_measurement(self, preset: str) -> None:
        if self._scheduler.refuses is not None:
            raise SchedulerRefused(self._scheduler.refuses.message, self._scheduler.refuses.code)
        self._scheduler.measured.append(preset)

    def fit_edited(self, spec: LaunchSpec, *, ladders: bool = False) -> FitAnswer:
        """Not what it takes: that is the measure job's to find."""
        self._scheduler.edited.append(spec)
        return self.fit(spec.preset)


def use_control_socket(
    settings: Any, monkeypatch: pytest.MonkeyPatch, scheduler: StandInScheduler
) -> None:
    """Whoever asks the scheduler in this process asks there."""
    settings.CORRAL_CONTROL_SOCKET = scheduler.socket
    monkeypatch.setattr(ports, "_scheduler", _Through(scheduler))
