"""What of a file is in memory, asked without reading from the disk."""

from __future__ import annotations

import errno
import os


def is_cached(descriptor: int, at: int) -> bool | None:
    """Whether the byte there is; None where the file system cannot tell. Raises OSError."""
    try:
        os.preadv(descriptor, [bytearray(1)], at, os.RWF_NOWAIT)
    except OSError as failure:
        if failure.errno == errno.EAGAIN:
            return False
        if failure.errno == errno.EOPNOTSUPP:
            return None
        raise
    return True
