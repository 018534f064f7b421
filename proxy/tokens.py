"""Names that nobody can guess. Their bytes are drawn many at once: each draw is a system call."""

from __future__ import annotations

import os
from secrets import token_hex

DRAWN = 2048
"""Bytes at once."""


class _Drawn:
    def __init__(self) -> None:
        self.digits = ""
        self.at = 0

    def forget(self) -> None:
        self.digits, self.at = "", 0


_drawn = _Drawn()
os.register_at_fork(after_in_child=_drawn.forget)


def hex_name(size: int) -> str:
    """As `secrets.token_hex` of that many bytes, at most DRAWN. For the event loop's thread."""
    begin = _drawn.at
    end = _drawn.at = begin + 2 * size
    if end > len(_drawn.digits):
        _drawn.digits = token_hex(DRAWN)
        begin, end = 0, 2 * size
        _drawn.at = end
    return _drawn.digits[begin:end]
