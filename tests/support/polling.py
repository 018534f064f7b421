"""The one way a test waits for something: ask again until it is so, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], what: str, seconds: float = 20.0) -> T:
    """The first true answer of `condition`. Fails, with `what`, when time is up."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s; last seen: {answer!r}")
        time.sleep(0.01)
