"""A lease, as whoever holds it sees it."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from .connection import Connection, ConnectionLost
from .protocol import Abandon, Ended, Forgo, Granted, Heard, Keep, Refused, Release

logger = logging.getLogger(__name__)


_NEVER = asyncio.Event()


class Lease:
    """One request's hold on an instance. It ends by `release`; `abandon` says that its client has
    left while the child still works, and is followed by a `release` when the child has done."""

    def __init__(
        self,
        connection: Connection,
        granted: Granted,
        asked: int,
        draining: asyncio.Event | None = None,
        charge: str = "",
    ) -> None:
        """`asked` is the id of the acquire that it was granted for, `charge` what it counts by."""
        self.lease = granted.lease
        self.preset = granted.preset
        self.instance = granted.instance
        self.address = granted.address
        self.filters = granted.filters
        self.remote = granted.remote
        self.model = granted.model
        self.limits = granted.limits
        self.stream = granted.stream
        self.loading = granted.loading
        self.tells_tokens = granted.tells_tokens
        self.rate = granted.rate
        self.lost = asyncio.Event()
        """Set when the control connection that held it broke."""
        self.draining = draining or _NEVER
        """Of a WebSocket's: set while its instance drains, which waits for the lease's end."""
        self._connection = connection
        self._asked = asked
        self._charge = charge
        self._over = False

    async def release(
        self,
        *,
        died: bool = False,
        read: int | None = None,
        cached: int | None = None,
        answered: int | None = None,
        unread: bool = False,
        unanswered: bool = False,
    ) -> Ended | None:
        """Once; later calls do nothing. Tokens that nobody has counted are None. `unread`: a
        conversation's stream has ended, and its client may not have all of it yet. `unanswered`:
        it got nothing, and is asked for again, unless `forgo` says that it is not. With `died` it
        tells how the instance ended, None when it still lives; else it returns at once. A
        connection that is gone is not an error."""
        if self._over:
            return None
        self._over = True
        self._connection.leases.discard(self)
        self._connection.forget(self._asked)
        id = self._connection.next_id()
        silent = not died
        ask = Release(id, self.lease, died, read, cached, answered, unread, unanswered, silent)
        if not died:
            self._connection.tell(ask)
            return None
        try:
            ok = await self._connection.ask(ask)
        except ConnectionLost:
            self.lost.set()  # it was no longer among the connection's leases
            return None
        except Refused as failure:
            logger.debug("how instance %d ended is not known: %s", self.instance, failure)
            return None
        return msgspec.convert(ok["ended"], Ended) if "ended" in ok else None

    def forgo(self) -> None:
        """Once it was released as `unanswered`: its request is not asked for again."""
        if self._charge:
            self._connection.tell(Forgo(self._connection.next_id(), self._charge))

    def heard(self, failed: str = "") -> None:
        """Of a remote: it began to answer, or failed in this way."""
        if not self._over:
            self._connection.tell(Heard(self._connection.next_id(), self.lease, failed))

    def keep(self, tenant: str, seconds: float) -> None:
        """For how long the tenant wishes the model kept once it is idle (protocol.Keep)."""
        if not self._over:
            ask = Keep(self._connection.next_id(), self.preset, seconds, tenant)
            self._connection.tell(ask)

    def abandon(self) -> None:
        if not self._over:
            self._connection.tell(Abandon(self._connection.next_id(), self.lease))
