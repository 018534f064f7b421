"""A `serve` that is ready, on a state folder of its own; stopped as a person stops it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.gateway import READY, Gateway, serve
from tests.support.polling import eventually
from tests.support.prepared import DATABASE, first_state


@contextmanager
def served(var: Path, *args: str, **env: str) -> Iterator[Gateway]:
    """It finds its tables, an account and a key."""
    if not (var / DATABASE).exists():
        first_state(var)
    with serve(var, ["--port", "0", *args], env) as running:
        running.client.port = int(eventually(lambda: _ready(running), "it is ready", 90)[1])
        yield running
        running.interrupt()
        running.process.wait(60)


def _ready(running: Gateway) -> re.Match[str] | None:
    assert running.process.poll() is None
    return READY.search(text_of(running))


def text_of(running: Gateway) -> str:
    return "\n".join(running.output)
