"""Small texts of other programs' stores, read without believing what they claim to be."""

from __future__ import annotations

import os
import stat


def small_text(path: str, most: int) -> str:
    """A regular file's text. Raises ValueError when it is something else, larger than `most` bytes
    or not UTF-8, and OSError. Never waits: a pipe in its place is not read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("is not a regular file")
        if found.st_size > most:
            raise ValueError(f"has {found.st_size} bytes, where at most {most} are believed")
        return os.read(descriptor, most).decode()
    finally:
        os.close(descriptor)
