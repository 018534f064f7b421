"""What stays open or waits under a key ends within a second of the key's end: the key is revoked,
expires, or goes with its team, or its owner with the membership. What is open by a session of the
admin ends with that: its person has logged out, is made inactive, or has another password.

A request that waits while a model is taken off its list finds the model gone when its turn comes.

An answer under way is not cut: it was let in, and is paid for. Two looks at the keys each second
are made only while there is anything to end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from models_registry.allowing import Allowed
from proxy.callers import Caller
from proxy.key_ring import KeyRing
from proxy.underway import UnderWay
from proxy.watch import Cause, Watch
from scheduler.client import Lease
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5


async def leased_as_allowed(
    caller: Caller, now: Callable[[], Caller], ask: Callable[[Allowed], Awaitable[Lease]]
) -> Lease:
    """`ask` waits for a lease of one of the models that it is told. Where that list has become
    another meanwhile, by the last look at the keys, it is asked again: it keeps its place, if the
    model is still there. Raises Refused or Interrupted."""
    allowed = caller.allowed
    while True:
        lease = await ask(allowed)
        newer = now().allowed
        if newer == allowed:
            return lease
        await lease.release(read=0, cached=0, answered=0)
        allowed = newer


class Standing:
    """Of one process. It looks from the first call of `begin` on."""

    def __init__(self, keys: KeyRing, under_way: UnderWay) -> None:
        self._keys = keys
        self._under_way = under_way
        self._looking: asyncio.Task[None] | None = None

    def begin(self) -> None:
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_on(), name="keys that end")

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look()
            except Exception:  # one look that fails must not be the last
                logger.exception("Which keys have ended is not known: it is looked for again")

    async def _look(self) -> None:
        await self._look_at_keys()
        await self._look_at_sessions()

    async def _look_at_sessions(self) -> None:
        """While the database fails nothing is ended for it."""
        for watch in self._under_way.watches():
            if watch.session is None:
                continue
            try:
                person = await watch.session()
            except Refused as refused:
                logger.warning("Whose sessions stand is not known: %s", refused.message)
                return
            if person is None:
                watch.interrupt(Cause.SESSION_ENDED)

    async def _look_at_keys(self) -> None:
        held = [watch for watch in self._under_way.watches() if _ends_with_its_key(watch)]
        if not held or not await self._keys.look():
            return
        for watch in held:
            if _ends_with_its_key(watch) and not self._keys.stands(watch.key):
                watch.interrupt(Cause.KEY_ENDED)


def _ends_with_its_key(watch: Watch) -> bool:
    return bool(watch.key) and (watch.queued or watch.listens)
