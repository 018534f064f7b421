"""Files that a process keeps locked (flock) as long as it lives: whoever gets the lock of one knows
that its process is gone, without a pid and without a clean-up."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path


def made(folder: Path, name: Callable[[], str], flags: int) -> tuple[Path, int]:
    """A new one, locked. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        path = folder / name()
        file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file).st_nlink:
            return path, file
        os.close(file)  # somebody took it for one that was left


def left(path: Path, flags: int) -> int | None:
    """One whose process is gone, locked; None when it is somebody's, or gone. Raises OSError."""
    try:
        file = os.open(path, flags)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    if os.fstat(file).st_nlink:
        return file
    os.close(file)
    return None
