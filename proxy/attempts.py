"""How often one request is tried, and what its client is told when its child has gone."""

from __future__ import annotations

from scheduler.client import Lease
from scheduler.protocol import Ended, Refused

UNLOADED = "unloaded"
"""Why an instance ended that a person unloaded by force (scheduler.core.decisions.Reason)."""
ATTEMPTS = 2
LOST_SCHEDULERS = 3
"""How often a request is asked for again because the scheduler went away under it."""

WORDS = "an administrator can see its last words"


class Attempts:
    """Of one request for `model`."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._failures = 0
        self._crashes = 0
        self._lost = 0

    async def judge(self, lease: Lease) -> None:
        """The child died before a byte of its answer. Ends the lease, and returns if there is
        another try. Raises Refused."""
        try:
            await self._judge(lease)
        except Refused:
            lease.forgo()
            raise

    async def _judge(self, lease: Lease) -> None:
        model = self._model or lease.preset
        ended = await lease.release(died=True, unanswered=True)
        if lease.lost.is_set():
            self._lost += 1
            if self._lost > LOST_SCHEDULERS:
                raise Refused(
                    "scheduler_unavailable",
                    "The scheduler went away again and again while this request was under way.",
                    retry_after_seconds=5.0,
                )
            return  # its children went with it: no crash of theirs
        self._failures += 1
        if ended is not None and ended.by_itself:
            self._crashes += 1
        if ended is not None and ended.reason == UNLOADED:
            raise broken_off(ended, model)  # a person ended it: it is not to come back by itself
        if self._failures < ATTEMPTS:
            return
        if self._crashes >= ATTEMPTS:
            raise Refused(
                "request_crashes_model",
                f"Two instances of '{model}' died while this request was under way, the last one"
                f"{_how(ended)}. It is not tried again here. If it happens once more with this"
                f" request alone, change the request or the preset's options; {WORDS}.",
            )
        raise broken_off(ended, model)


def broken_off(ended: Ended | None, model: str) -> Refused:
    """What the client is told when an answer could not be whole."""
    if ended is None:
        return Refused("model_died", f"The connection to the instance of '{model}' broke.")
    if ended.by_itself:
        return Refused("model_died", f"The instance of '{model}' died{_how(ended)}; {WORDS}.")
    return Refused(
        "model_stopped",
        f"The instance of '{model}' was stopped ({ended.reason}).",
        retry_after_seconds=1.0,
    )


def _how(ended: Ended | None) -> str:
    """Never its last words: what a child says while it serves may hold other clients' texts."""
    if ended is not None and ended.signal is not None:
        return f" of signal {ended.signal}"
    if ended is not None and ended.exit_code is not None:
        return f" with exit code {ended.exit_code}"
    return ""
