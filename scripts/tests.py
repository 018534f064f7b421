"""All tests, in lanes side by side; with arguments it is pytest.

Much of a lane's time goes by in waiting for processes that start, stop or answer: five at once keep
two cores busy, and the next begins when one has ended. Each is a pytest of its own, with a state
folder of its own (tests/state_folder.py), and is shown whole when it ends, with what it cost
(tests/costs.py). A signal ends them all as Ctrl-C does, with what they have started.

What failed is tried once more at the end, with nothing beside it, unless it is many: what then
passes is told by name, as a fault that waits for a person (docs/decisions/0032-second-try.md).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
APART = ("django", "process", "e2e", "browser", "postgres", "security")
LANES = {
    "servers": ["tests/e2e", "-m", "each_server"],
    "product": ["tests/e2e", "-m", "not each_server and not alone"],
    "process": ["tests/process"],
    "django": ["tests/django"],
    "near": ["tests", *(f"--ignore=tests/{folder}" for folder in APART)],
    "postgres": [
        "tests/postgres",
        "tests/django",
        "tests/proxy",
        "-m",
        "each_database",
        "--reuse-db",
    ],
    "browser": ["tests/browser"],
    "security": ["tests/security"],
}
"""In the order in which they begin: what lasts longest comes first."""
AT_ONCE = 5
BESIDE = {"postgres": [sys.executable, "-m", "tests.support.postgres"]}
"""What starts a lane, and what it needs before and after."""
INTERRUPTED = 2  # pytest's word for it
ALONE = ["tests/e2e", "-m", "alone"]
"""What judges the memory of the whole machine: after the lanes, which take and give back much."""
PYTEST = [sys.executable, "-m", "pytest"]
REPORT = ["-p", "tests.costs", "-p", "tests.failed", "-p", "tests.lane_files"]
TESTS_FAILED = 1  # pytest's word for it
TRIED_AGAIN = 5
"""Failed tests in all: more than these are no accident of two busy cores."""


class Lane(NamedTuple):
    process: subprocess.Popen[bytes]
    said: IO[str]


def main(arguments: list[str]) -> int:
    if arguments:
        os.chdir(ROOT)
        os.execv(sys.executable, [*PYTEST, *arguments])
    # What runs in the background of a shell ignores it, and would hand that on to the lanes
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="corral-tests-") as logs:
        lanes = Lanes(Path(logs))
        signal.signal(signal.SIGTERM, lambda *_: lanes.interrupt())
        codes = lanes.run()
        if not lanes.interrupted:
            print("\n== alone", flush=True)
            codes["alone"] = _run_here(Path(logs), "alone", ALONE)
            codes |= _second_try(Path(logs), codes)
    failed = [name for name, code in codes.items() if code]
    print(f"== failed: {', '.join(failed)}" if failed else "== all lanes passed")
    return 1 if failed else 0


def _second_try(logs: Path, codes: dict[str, int]) -> dict[str, int]:
    """What the lanes with failed tests come to when only those run, one after another."""
    lanes = [name for name, code in codes.items() if code == TESTS_FAILED]
    failed = {name: _failed_tests(logs, name) for name in lanes}
    if not all(failed.values()) or sum(map(len, failed.values())) > TRIED_AGAIN:
        return {}
    again = {}
    for name, tests in failed.items():
        print(f"\n== {name}, what failed once more", flush=True)
        again[name] = _run_here(logs, name, tests)
        if not again[name]:
            for test in tests:
                print(f"== UNSTEADY, passed only by itself: {test}", flush=True)
    return again


def _failed_tests(logs: Path, name: str) -> list[str]:
    told = logs / f"{name}.failed"
    return told.read_text().splitlines() if told.exists() else []


def _run_here(logs: Path, name: str, arguments: list[str]) -> int:
    command = [*BESIDE.get(name, []), *PYTEST, *REPORT, *arguments]
    return subprocess.run(command, cwd=ROOT, env=_environment(logs, name), check=False).returncode


class Lanes:
    def __init__(self, logs: Path) -> None:
        self.interrupted = False
        self._logs = logs
        self._begun = time.monotonic()
        self._waiting = list(LANES)
        self._running: dict[str, Lane] = {}

    def run(self) -> dict[str, int]:
        """What each lane's pytest ended with."""
        codes = {}
        self._start()
        while self._running:
            name, seconds = self._next_to_end()
            process, said = self._running.pop(name)
            if process.returncode == INTERRUPTED:
                self.interrupted = True
            self._start()
            said.seek(0)
            after = time.monotonic() - self._begun
            print(f"\n== {name}, ended after {after:.0f} s, {seconds:.0f} s of CPU", flush=True)
            print(said.read(), flush=True)
            said.close()
            codes[name] = process.returncode
        return codes

    def interrupt(self) -> None:
        self.interrupted = True
        for process, _ in self._running.values():
            process.send_signal(signal.SIGINT)

    def _start(self) -> None:
        """As many as may run at once; after an interruption none."""
        while self._waiting and len(self._running) < AT_ONCE and not self.interrupted:
            name = self._waiting.pop(0)
            command = [*BESIDE.get(name, []), *PYTEST, *REPORT, *LANES[name]]
            said = (self._logs / name).open("w+", errors="replace")
            process = subprocess.Popen(
                command, cwd=ROOT, env=_environment(self._logs, name), stdout=said, stderr=said
            )
            self._running[name] = Lane(process, said)

    def _next_to_end(self) -> tuple[str, float]:
        """Its name, and the CPU seconds of all that it had started and waited for."""
        while True:
            for name, (process, _) in self._running.items():
                ended, status, used = os.wait4(process.pid, os.WNOHANG)
                if ended:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    return name, used.ru_utime + used.ru_stime
            try:
                time.sleep(0.5)
            except KeyboardInterrupt:  # from a terminal, which has told the lanes too
                self.interrupted = True
                print("interrupted: the lanes end what they have started", flush=True)


def _environment(logs: Path, name: str) -> dict[str, str]:
    told = {"CORRAL_TESTS": name, "CORRAL_TESTS_FAILED": str(logs / f"{name}.failed")}
    environment = os.environ | told
    # Some thousand processes would compile the same files, and each lane all that pytest rewrites
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
