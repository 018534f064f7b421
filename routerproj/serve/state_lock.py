"""One `serve` per state folder: a lock that the kernel lets go when its process ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

_NAME = "serve.lock"


class StateInUse(Exception):
    """Another `serve` works on the same CORRAL_VAR."""


class StateLock:
    """Taken when made; held as long as the process lives. Holds the address that is served."""

    def __init__(self, var: Path) -> None:
        """Raises StateInUse."""
        # The file stays: removing it would let two processes lock two files of the same name.
        self._descriptor = os.open(var / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            url = served_url(var)
            where = f" at {url}" if url else ""
            raise StateInUse(
                f"another `serve` already runs{where} on CORRAL_VAR={var}:"
                " stop it first, or give this one a CORRAL_VAR of its own"
            ) from None
        os.truncate(self._descriptor, 0)

    def announce(self, url: str) -> None:
        os.truncate(self._descriptor, 0)
        os.pwrite(self._descriptor, url.encode(), 0)


def served_url(var: Path) -> str:
    """Where the running `serve` listens; empty when none runs, or none has come that far."""
    try:
        descriptor = os.open(var / _NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 200, 0).decode(errors="replace")
    finally:
        os.close(descriptor)
    return ""
