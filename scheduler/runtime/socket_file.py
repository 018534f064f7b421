"""The file of a socket, for as long as somebody listens on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def socket_file(path: Path) -> Iterator[None]:
    """No file before, none after. Only under the scheduler's lock: nobody else listens on it."""
    path.unlink(missing_ok=True)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
