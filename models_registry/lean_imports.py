"""Importing a library without what it imports only because that happens to be installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def taken_as_missing(*names: str) -> Iterator[None]:
    """Inside, these packages count as not installed, but for those that are imported already."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None: "not there"
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
