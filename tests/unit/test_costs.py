"""What the lanes say of their cost."""

from __future__ import annotations

import subprocess
import sys

from tests.costs import cpu_seconds

BUSY = """
import time
while time.process_time() < 0.3: pass
print("done", flush=True)
input()
"""


def test_a_childs_work_counts_while_it_lives_and_once_it_was_waited_for():
    before = cpu_seconds()
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        living = cpu_seconds() - before
        child.communicate(b"\n")
    ended = cpu_seconds() - before

    assert living > 0.25
    assert ended > 0.25
