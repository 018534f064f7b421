"""One scheduler per CORRAL_VAR: a lock that the kernel lets go with its process."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from .kept_streams import PATTERN as KEPT_STREAMS


class AlreadyRunning(Exception):
    """Another scheduler works on the same CORRAL_VAR."""


@contextlib.contextmanager
def only_scheduler(var: Path) -> Iterator[None]:
    """Held for the block. Raises AlreadyRunning with what to do; then nothing was touched."""
    # Not beside the sockets: their folder may depend on the environment, CORRAL_VAR does not.
    path = var / "scheduler.lock"
    # The file stays: removing it would let two processes lock two files of the same name.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            raise AlreadyRunning(
                f"another scheduler (pid {pid or 'unknown'}) already runs on this CORRAL_VAR: "
                "stop it first, or give this one a CORRAL_VAR of its own"
            ) from None
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def remove_leftovers(run_folder: Path) -> None:
    """Sockets of children of a scheduler that was killed, and of children that measured when the
    jobs process was: nobody ever asks these anything; and streams that were kept for its clients.
    Only under the lock."""
    for pattern in ("i-*.sock", "m-*.sock", KEPT_STREAMS):
        for socket in run_folder.glob(pattern):
            socket.unlink(missing_ok=True)
