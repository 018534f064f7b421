"""What the kernel says of the gateway, several times a second: orphans, children, memory."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.gateway import Gateway
from tests.support.processes import Process

LOOK_EVERY_SECONDS = 0.25
ORPHAN_SECONDS = 2.0
"""How long a process may outlive the one that started it."""


@dataclass(frozen=True)
class Memory:
    """The resident memory of one process over its life: seconds of its age, MiB."""

    pid: int
    ages: Sequence[float]
    sizes: Sequence[float]

    @property
    def seconds(self) -> float:
        return self.ages[-1] if self.ages else 0.0

    def after_warm_up(self) -> tuple[list[float], list[float]]:
        """The first third is left out."""
        later = [(a, s) for a, s in zip(self.ages, self.sizes, strict=True) if a > self.seconds / 3]
        return [age for age, _ in later], [size for _, size in later]

    @property
    def slope(self) -> float:
        """MiB an hour, after the warm-up."""
        ages, sizes = self.after_warm_up()
        return statistics.linear_regression(ages, sizes).slope * 3600 if len(ages) > 2 else 0.0

    @property
    def growth(self) -> float:
        """MiB from the beginning of what follows the warm-up to the end."""
        _, sizes = self.after_warm_up()
        part = max(1, len(sizes) // 5)
        return statistics.median(sizes[-part:]) - statistics.median(sizes[:part]) if sizes else 0.0


@dataclass
class Watch(threading.Thread):
    gateway: Gateway
    looks: int = 0
    most_children: int = 0
    children_seen: set[int] = field(default_factory=set)
    orphans: list[str] = field(default_factory=list)
    schedulers: list[Memory] = field(default_factory=list)
    event_logs: Path | None = None
    """Where the event logs are kept: the scheduler removes old ones."""
    failure: BaseException | None = None

    def __post_init__(self) -> None:
        super().__init__(name="watch")
        self._over = threading.Event()
        self._suspects: dict[int, float] = {}

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        try:
            while not self._over.wait(LOOK_EVERY_SECONDS):
                self._look()
        except BaseException as failure:
            self.failure = failure

    def end(self) -> None:
        self._over.set()
        self.join()
        if self.failure:
            raise self.failure

    def _look(self) -> None:
        # Who is in both readings lived in the moment between them
        earlier = {process.pid for process in self.gateway.processes()}
        living = [process for process in self.gateway.processes() if process.pid in earlier]
        children = {process.pid for process in living if process.role == "child"}
        self.looks += 1
        self.children_seen |= children
        self.most_children = max(self.most_children, len(children))
        self._look_for_orphans(living)
        self.keep_event_logs()
        for process in living:
            # One that is about to become a child looks like the scheduler that starts it
            if process.role == "scheduler" and process.parent == self.gateway.process.pid:
                self._weigh(process.pid)

    def keep_event_logs(self) -> None:
        if self.event_logs is None:
            return
        self.event_logs.mkdir(exist_ok=True)
        for log in (self.gateway.var / "logs").glob("events-*.jsonl"):
            kept = self.event_logs / log.name
            with contextlib.suppress(FileNotFoundError):  # removed in this very moment
                if not kept.exists():
                    kept.hardlink_to(log)

    def _look_for_orphans(self, living: Sequence[Process]) -> None:
        families = {process.pid for process in living} | {self.gateway.process.pid}
        alone = {
            p.pid: p
            for p in living
            if p.parent not in families and p.pid != self.gateway.process.pid
        }
        now = time.monotonic()
        self._suspects = {pid: self._suspects.get(pid, now) for pid in alone}
        for pid, since in self._suspects.items():
            if now - since > ORPHAN_SECONDS:
                self.orphans.append(f"{alone[pid]} for {now - since:.1f} s")

    def _weigh(self, pid: int) -> None:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return
        size = next((line for line in status.splitlines() if line.startswith("VmRSS:")), None)
        if size is None:
            return  # it ends
        if not self.schedulers or self.schedulers[-1].pid != pid:
            self._born = time.monotonic()
            self.schedulers.append(Memory(pid, [], []))
        life = self.schedulers[-1]
        assert isinstance(life.ages, list)
        assert isinstance(life.sizes, list)
        life.ages.append(time.monotonic() - self._born)
        life.sizes.append(int(size.split()[1]) / 1024)
