"""All tests, in lanes side by side; with arguments it is pytest.

Much of a lane's time goes by in waiting for processes that start, stop or answer: five lanes keep
two cores busy. Each is a pytest of its own, with a state folder of its own (tests/state_folder.py),
and is shown whole when it ends. A signal ends them all as Ctrl-C does, with what they have started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
APART = ("process", "e2e", "browser", "postgres")
LANES = {
    "near": ["tests", *(f"--ignore=tests/{folder}" for folder in APART)],
    "process": ["tests/process"],
    "servers": ["tests/e2e", "-m", "each_server"],
    "postgres": [
        "tests/postgres",
        "tests/django",
        "tests/proxy",
        "-m",
        "each_database",
        "--reuse-db",
    ],
    "product": ["tests/e2e", "tests/browser", "-m", "not each_server and not alone"],
}
BESIDE = {"postgres": [sys.executable, "-m", "tests.support.postgres"]}
"""What starts a lane, and what it needs before and after."""
INTERRUPTED = 2  # pytest's word for it
ALONE = ["tests/e2e", "-m", "alone"]
"""What judges the memory of the whole machine: after the lanes, which take and give back much."""


def main(arguments: list[str]) -> int:
    command = [sys.executable, "-m", "pytest"]
    if arguments:
        os.chdir(ROOT)
        os.execv(sys.executable, [*command, *arguments])
    begun = time.monotonic()
    # What runs in the background of a shell ignores it, and would hand that on to the lanes
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="corral-tests-") as logs:
        running = {
            name: _started(name, [*BESIDE.get(name, []), *command, *chosen], Path(logs, name))
            for name, chosen in LANES.items()
        }
        signal.signal(signal.SIGTERM, lambda *_: _interrupt(running))
        failed, interrupted = [], False
        while running:
            name = _next_to_end(running)
            process, log = running.pop(name)
            log.seek(0)
            print(f"\n== {name}, {time.monotonic() - begun:.0f} s\n{log.read()}", flush=True)
            log.close()
            failed += [name] if process.returncode else []
            interrupted = interrupted or process.returncode == INTERRUPTED
        if not interrupted:
            print(f"\n== alone, from {time.monotonic() - begun:.0f} s on", flush=True)
            environment = os.environ | {"CORRAL_TESTS": "alone"}
            alone = subprocess.run([*command, *ALONE], cwd=ROOT, env=environment, check=False)
            failed += ["alone"] if alone.returncode else []
    print(f"== failed: {', '.join(failed)}" if failed else "== all lanes passed")
    return 1 if failed else 0


Lane = tuple[subprocess.Popen[bytes], IO[str]]


def _started(name: str, command: list[str], log: Path) -> Lane:
    said = log.open("w+", errors="replace")
    environment = os.environ | {"CORRAL_TESTS": name}
    # Some thousand processes would compile the same files, and each lane all that pytest rewrites
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=said), said


def _next_to_end(running: dict[str, Lane]) -> str:
    while True:
        for name, (process, _) in running.items():
            if process.poll() is not None:
                return name
        try:
            time.sleep(0.5)
        except KeyboardInterrupt:  # from a terminal, which has told the lanes too
            print("interrupted: the lanes end what they have started", flush=True)


def _interrupt(running: dict[str, Lane]) -> None:
    for process, _ in running.values():
        process.send_signal(signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
