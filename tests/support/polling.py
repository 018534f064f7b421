"""The one way a test waits for something: ask again until it is so, with a deadline.

A question that takes long is asked less often, for the processor has to do what is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 0.1


def eventually(condition: Callable[[], T], what: str, seconds: float = 20.0) -> T:
    """The first true answer of `condition`. Fails, with `what`, when time is up."""
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        answer = condition()
        took = time.monotonic() - asked
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s; last seen: {answer!r}")
        time.sleep(min(max(SHORTEST_PAUSE, 2 * took), LONGEST_PAUSE))
