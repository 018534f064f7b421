"""How often Python looks for garbage in a process that serves requests."""

from __future__ import annotations

import gc

OBJECTS = 20_000
"""How many more objects than at the last look make it look again."""


def collect_seldom() -> None:
    """To be called when everything is imported and set up: none of that is garbage ever, and
    looking at it again and again took a seventh of a web process's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS, 10, 10)
