"""What breaks, at random by a seed: children, the scheduler, web workers, jobs, files, peers."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler.run_folder import control_socket

from .stage import FRAGILE, MOODS, PRESETS, Stage

MOMENT = (0.2, 3.0)
"""Seconds for which a process stands still and is not yet missed."""
HANG_SECONDS = 40.0
"""It is found out and replaced long before; one that is not goes on then, and is reported."""
DEADLY = (signal.SIGKILL, signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGTERM)
NOISE = (
    b'{"op": "acquire", "id": 1, "preset": "alpha", "kind": "post"',
    b'{"op": "acquire", "id": 1, "preset": "alpha", "kind": "post"}\n',
    b'{"op": "acquire", "id": 1, "preset": "nobody"}\n{"op": "release", "id": 2, "lease": 999}\n',
    b'{"op": "release", "id": -3, "lease": "x"}\n{}\n[]\n\xff\xfe\n' + b"{" * 4000 + b"\n",
    b'{"op": "cancel", "id": 1, "target": 77}\n{"op": "snapshot", "id": 2}\n{"op": "dance"}\n',
)
WEB_BACK_SECONDS = 5.0
NOTICED_SECONDS = 12.0
"""After so long a process that is silent is replaced."""


@dataclass
class Storm(threading.Thread):
    """A fault a second on average, one after the other."""

    stage: Stage
    random: random.Random
    burst: Callable[[int], None]
    scheduler_until: float
    """Monotonic time until which the scheduler is hit as well; the last one is to grow old."""
    faults: Counter[str] = field(default_factory=Counter)
    told: list[tuple[float, str]] = field(default_factory=list)
    web_hit: list[tuple[float, float]] = field(default_factory=list)
    """From when to when connections may break: their web process was hit."""
    unnoticed: list[str] = field(default_factory=list)
    """Those who hung to the end of their time, and were not replaced."""
    failure: BaseException | None = None

    def __post_init__(self) -> None:
        super().__init__(name="storm")
        self._over = threading.Event()
        self._frozen: dict[int, tuple[float, str, bool]] = {}
        """By pid: until when it stands still, what it is, and whether that is to be noticed."""

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        table = self._table()
        weights = [weight for weight, _ in table.values()]
        try:
            while not self._over.wait(min(5.0, self.random.expovariate(1))):
                self._thaw()
                name = self.random.choices(list(table), weights)[0]
                if "scheduler" in name and time.monotonic() > self.scheduler_until:
                    continue
                if detail := table[name][1]():
                    self.faults[name] += 1
                    self.told.append((time.monotonic(), f"{name}: {detail}"))
        except BaseException as failure:
            self.failure = failure

    def end(self) -> None:
        """The sky clears: all that stands still goes on, files are whole."""
        self._over.set()
        self.join()
        self._thaw(everything=True)
        self.stage.set_mood("")
        self.stage.mend_file()
        if self.failure:
            raise self.failure

    def _table(self) -> dict[str, tuple[float, Callable[[], str]]]:
        """By name: how often beside the others, and what is done. It says what it did; empty when
        there was nothing to do it to."""
        return {
            "a child is killed": (8, self._kill_child),
            "a child stands still for a moment": (4, lambda: self._freeze("child", MOMENT)),
            "a child hangs": (2, lambda: self._freeze("child", (HANG_SECONDS, HANG_SECONDS))),
            "a web worker is killed": (1.5, self._kill_web),
            "a web worker stands still for a moment": (1, self._stall_web),
            "a web worker hangs": (0.3, self._hang_web),
            "the jobs are killed": (0.5, lambda: self._kill("jobs", signal.SIGKILL)),
            "the scheduler is killed": (2, lambda: self._kill("scheduler", signal.SIGKILL)),
            "the scheduler stands still for a moment": (
                1,
                lambda: self._freeze("scheduler", MOMENT),
            ),
            "the scheduler hangs": (0.8, lambda: self._freeze("scheduler", (HANG_SECONDS,) * 2)),
            "the stand-in changes its mood": (6, self._change_mood),
            "a model file breaks": (1.5, self._break_file),
            "a model file is mended": (2, self._mend_file),
            "a person unloads": (2, lambda: self._order("unload", force=False)),
            "a person unloads by force": (1, lambda: self._order("unload", force=True)),
            "a person loads": (3, lambda: self._order("load", wait=False)),
            "a person edits": (1, self._edit),
            "a person pins or unpins": (1, self._pin),
            "a control client talks nonsense and dies": (3, self._make_noise),
            "sixty ask at once": (1, self._burst),
        }

    # Processes ----------------------------------------------------------------------------------

    def _pids(self, role: str) -> list[int]:
        return sorted(p.pid for p in self.stage.gateway.processes(role))

    def _one(self, role: str) -> int:
        pids = [pid for pid in self._pids(role) if pid not in self._frozen]
        return self.random.choice(pids) if pids else 0

    def _signal(self, pid: int, number: signal.Signals) -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
        return False

    def _kill(self, role: str, number: signal.Signals) -> str:
        pid = self._one(role)
        return f"{pid} by {number.name}" if pid and self._signal(pid, number) else ""

    def _kill_child(self) -> str:
        return self._kill("child", self.random.choice(DEADLY))

    def _kill_web(self) -> str:
        now = time.monotonic()
        self.web_hit.append((now, now + WEB_BACK_SECONDS))
        return self._kill("web", signal.SIGKILL)

    def _stall_web(self) -> str:
        return self._freeze_web(MOMENT)

    def _hang_web(self) -> str:
        return self._freeze_web((HANG_SECONDS, HANG_SECONDS))

    def _freeze_web(self, seconds: tuple[float, float]) -> str:
        """On a busy machine a moment may be too long for those who watch it."""
        now = time.monotonic()
        self.web_hit.append((now, now + max(seconds) + NOTICED_SECONDS + WEB_BACK_SECONDS))
        return self._freeze("web", seconds)

    def _freeze(self, role: str, seconds: tuple[float, float]) -> str:
        pid, how_long = self._one(role), self.random.uniform(*seconds)
        if not pid or not self._signal(pid, signal.SIGSTOP):
            return ""
        hangs = how_long >= HANG_SECONDS
        self._frozen[pid] = (time.monotonic() + how_long, role, hangs)
        return f"{pid} for {how_long:.1f} s"

    def _thaw(self, *, everything: bool = False) -> None:
        now = time.monotonic()
        for pid, (until, role, hangs) in list(self._frozen.items()):
            if pid not in self._pids(role):  # replaced, and its number may be another's now
                del self._frozen[pid]
            elif everything or now >= until:
                del self._frozen[pid]
                self._signal(pid, signal.SIGCONT)
                self.told.append((now, f"{role} {pid} goes on"))
                if hangs and not everything:
                    self.unnoticed.append(f"{role} {pid}")

    # Files and people ---------------------------------------------------------------------------

    def _change_mood(self) -> str:
        mood = self.random.choice(MOODS)
        self.stage.set_mood(mood)
        return mood or "well-behaved"

    def _break_file(self) -> str:
        self.stage.break_file()
        return FRAGILE

    def _mend_file(self) -> str:
        self.stage.mend_file()
        return FRAGILE

    def _order(self, operation: str, **fields: bool) -> str:
        preset = self.random.choice(PRESETS)
        # The scheduler may be away, and what runs may be gone
        with contextlib.suppress(OSError, ValueError, AssertionError):
            self.stage.gateway.control(operation, preset=preset, **fields)
        return preset

    def _edit(self) -> str:
        size = self.random.choice((2048, 4096, 8192))
        return self._manage("PATCH", "presets/alpha", {"ctx_size": size})

    def _pin(self) -> str:
        return self._manage("POST", f"presets/gamma/{self.random.choice(('pin', 'unpin'))}")

    def _manage(self, method: str, path: str, body: dict[str, int] | None = None) -> str:
        client = self.stage.gateway.client
        with contextlib.suppress(OSError, EOFError):
            client.request(
                method, f"/router/api/{path}", body, key=self.stage.admin_key, timeout=10
            )
        return f"{method} {path} {body or ''}"

    def _make_noise(self) -> str:
        noise = self.random.choice(NOISE)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(control_socket(self.stage.gateway.var)))
            connection.sendall(noise)
            time.sleep(self.random.uniform(0, 0.3))
        return repr(noise[:60])

    def _burst(self) -> str:
        self.burst(60)
        return "60"
