"""A driver that never returns from a call does not hold up the scheduler's exit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
HANGING = """
import asyncio, threading
from scheduler.runtime.devices import watch

watch.CLOSE_SECONDS = 0.1
began = threading.Event()

class Stuck:
    def read(self, ours, fresh):
        began.set()
        threading.Event().wait()
    def close(self):
        pass

async def main():
    watching = watch.DeviceWatch(Stuck(), ours=lambda: (), told=print)
    task = asyncio.create_task(watching.run())
    await asyncio.to_thread(began.wait)
    task.cancel()
    await watching.close()

asyncio.run(main())
print("closed")
"""


def test_a_hanging_driver_delays_no_exit():
    done = subprocess.run(
        [sys.executable, "-c", HANGING], cwd=ROOT, capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stderr
