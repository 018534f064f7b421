"""One question to the engine: `--list-devices`, in a process of its own.

An RPC server serves one connection at a time. A question that comes while it serves a child waits
until that child has gone; and were the asking process killed meanwhile, the server would write its
answer to nobody, which ends it (SIGPIPE; seen). So such a process is left alone until it has its
answer, and nobody waits for it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence

CLOSE_SECONDS = 2.0
_LONGEST = 64 << 10


class Asking:
    """Raises OSError when there is nothing to execute."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the answer
        self.since = time.monotonic()
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,  # a Ctrl-C is for us: it would be killed by it
            )
        except BaseException:
            self._said.close()
            raise

    def answer(self, wait_seconds: float = 0.0) -> tuple[int, str] | None:
        """Its exit status and what it said; None while it has not answered. Once only."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(wait_seconds)
            with self._said:
                return status, os.pread(self._said.fileno(), _LONGEST, 0).decode(errors="replace")
        return None

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> None:
        """Kills it if it must be. Only when nobody is served any more, or none is asked."""
        if self.answer(wait_seconds) is None:
            self._process.kill()
            self.answer(CLOSE_SECONDS)
