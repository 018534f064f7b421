"""This machine's own memory: what a real process takes is its own, what it maps is nobody's."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from scheduler.runtime.devices.host import Host

pytestmark = pytest.mark.slow

MIB = 1 << 20
SIZE = 512 * MIB
NOISE = 96 * MIB
"""Other processes take and give back meanwhile."""
TAKE = """
import mmap, sys
what, size = sys.argv[1], int(sys.argv[2])
if what == "anonymous":
    held = b"x" * size
elif what == "shared":
    held = mmap.mmap(-1, size)
    held.write(b"x" * size)
else:
    file = open(what, "r+b")
    held = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
    assert sum(held[at] for at in range(0, size, 4096)) == 0
print("taken", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def taking(what: str) -> Iterator[int]:
    command = [sys.executable, "-c", TAKE, what, str(SIZE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"taken\n"
        yield process.pid
        process.communicate(b"")


def ours_of(pid: int) -> int:
    """What the reading counts as that process's own."""
    host = Host()
    ((theirs,), (ours,)) = host.read(()), host.read((pid,))
    assert theirs.reading.foreign is not None
    assert ours.reading.foreign is not None
    return theirs.reading.foreign - ours.reading.foreign


@pytest.mark.parametrize("what", ["anonymous", "shared"])
def test_what_a_process_takes_is_its_own(what):
    with taking(what) as pid:
        assert SIZE - NOISE < ours_of(pid) < SIZE + NOISE


def test_a_mapped_file_is_nobodys(tmp_path):
    file = tmp_path / "weights"
    with file.open("wb") as empty:
        empty.truncate(SIZE)
    with taking(str(file)) as pid:
        assert ours_of(pid) < NOISE


def test_a_foreign_process_is_seen_to_come_and_to_go():
    host = Host()
    with taking("anonymous"):
        (taken,) = host.read(())
    (left,) = host.read(())

    assert taken.reading.foreign - left.reading.foreign > SIZE - 2 * NOISE
