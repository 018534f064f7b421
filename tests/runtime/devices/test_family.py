"""Our children, and what they have started."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from scheduler.runtime.devices.family import with_descendants


def started(proc: Path, pid: int, **by_thread: str) -> None:
    for thread, children in by_thread.items():
        (proc / str(pid) / "task" / thread.strip("t")).mkdir(parents=True)
        (proc / str(pid) / "task" / thread.strip("t") / "children").write_text(children)


def test_children_of_any_thread_and_their_children_belong(tmp_path):
    started(tmp_path, 10, t10="20 21 ", t11="22 ")
    started(tmp_path, 20, t20="30 ")

    assert with_descendants([10], tmp_path) == {10, 20, 21, 22, 30}


def test_a_process_that_has_gone_has_no_family(tmp_path):
    assert with_descendants([10], tmp_path) == {10}


def test_a_circle_ends(tmp_path):
    started(tmp_path, 10, t10="20 ")
    started(tmp_path, 20, t20="10 ")

    assert with_descendants([10, 20], tmp_path) == {10, 20}


def test_a_real_child_is_found():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        found = with_descendants([os.getpid()])
        child.communicate(b"")

    assert child.pid in found
