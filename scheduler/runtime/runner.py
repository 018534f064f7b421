"""Starts a child that ends with its parent, where util-linux's setpriv is missing.

    python runner.py <pid of the parent> <1: it may gain rights, 0> program argument...

Run as a program of its own, on the standard library alone; it becomes the child.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38


def main(argv: list[str]) -> int:
    parent, may_gain, program = int(argv[0]), argv[1] == "1", argv[2:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        print(f"runner: prctl failed: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return 1
    if not may_gain and libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        print(f"runner: prctl failed: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return 1
    if os.getppid() != parent:
        return 1  # it died before the signal was set: nobody is left to end the child
    try:
        os.execvp(program[0], program)
    except OSError as failure:
        print(f"runner: {program[0]}: {failure.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
