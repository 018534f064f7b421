"""How long a process that died waits for its next start. Pure."""

from __future__ import annotations

FIRST_DELAY_SECONDS = 0.1
LONGEST_DELAY_SECONDS = 10.0
STEADY_SECONDS = 30.0
"""One that ran this long counts as sound again."""


class BackOff:
    """One process's delays: doubled with each death, forgotten after a steady run."""

    def __init__(self) -> None:
        self._next = FIRST_DELAY_SECONDS

    def delay_after(self, ran_seconds: float) -> float:
        if ran_seconds >= STEADY_SECONDS:
            self._next = FIRST_DELAY_SECONDS
        delay = self._next
        self._next = min(LONGEST_DELAY_SECONDS, 2 * delay)
        return delay


SILENCE_SECONDS = 10.0
START_SECONDS = 30.0
"""What the first answer of a fresh process may take, on a machine that is busy."""


class Silence:
    """Tells a process that hangs from one that starts. A new pid begins anew."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._answered = False
        self._since = 0.0

    def hangs(self, pid: int, *, answered: bool, now: float) -> bool:
        """After a question to `pid`. True once it has been silent for too long."""
        if pid != self._pid:
            self._pid, self._answered, self._since = pid, False, now
        if answered:
            self._answered, self._since = True, now
            return False
        return now - self._since >= (SILENCE_SECONDS if self._answered else START_SECONDS)
