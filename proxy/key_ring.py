"""Whose request this is: all usable keys, kept in memory and read again each second."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from dataclasses import dataclass, field, replace

from django.db import Error as DatabaseError

from proxy.callers import Caller
from proxy.conf import ProxyConfig
from proxy.headers import RawHeaders
from proxy.key_rows import NOBODY, KeyRows, Known
from proxy.keys import FORMAT, key_in, pepper, secret_digest
from proxy.last_uses import LastUses
from proxy.limits.rows import NO_ROWS, LimitRows, read_limits
from proxy.models import DEFAULT_TEAM
from proxy.playground.session_keys import AskKey
from proxy.queries import DatabaseThread, Shared
from proxy.scopes import OF_SETTINGS
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

CACHE_SECONDS = 1.0
STALE_SECONDS = 5.0
"""A key that was good so long ago is still let in while the database fails or is too slow."""
SPACING_SECONDS = 0.2
"""Keys that nobody knows cost a query this often, all of them together."""
LOOKUP_SECONDS = 2.0
LOOKUP_OF_KNOWN_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class _Table:
    """All usable keys by public id, and when they were asked for. `default` is the caller that the
    keys of `serve`'s command line make: what is said of the default team counts for it."""

    looked_at: float
    keys: dict[str, Known]
    default: Caller
    limits: LimitRows = NO_ROWS
    proven: dict[bytes, tuple[str, Known]] = field(default_factory=dict)
    """By the texts of keys that have been shown since: to work out the same digest for each request
    costs as much as to look for the key. Whoever guesses finds nothing here."""


class KeyRing:
    """Says whose request it is. A revoked key is refused at most a second later.

    All usable keys are kept, and read again when they are a second old and somebody asks: one look
    whoever comes, with whatever key. An unknown one waits for a look-up that began after it came,
    so a key that was just made works at once; a flood of them costs five queries a second and
    shuts nobody out.
    """

    def __init__(self, config: ProxyConfig) -> None:
        self._no_auth = config.no_auth
        self._pepper = pepper(config.secret_key)
        self._plain = [secret_digest(key.encode(), self._pepper) for key in config.api_keys]
        self._table = _Table(float("-inf"), {}, Caller(DEFAULT_TEAM, scopes=OF_SETTINGS))
        self._policy_asked_at = float("-inf")
        self._rows = KeyRows()
        self._reader = DatabaseThread("keys")
        self._look_up = Shared(self._reader, self._read, SPACING_SECONDS)
        self._last_uses = LastUses()

    async def identify(self, headers: RawHeaders, by_session: AskKey | None = None) -> Caller:
        """Raises Refused: `invalid_api_key`, or `auth_unavailable` when the database fails."""
        if by_session is not None:
            return replace(await self._of_session(await by_session()), told_times=True)
        if self._no_auth:
            return Caller(DEFAULT_TEAM)  # who shares with nobody needs no policy, and no query
        key = key_in(headers)
        table = self._table
        if (proven := table.proven.get(key)) is not None:
            public_id, shown = proven
            if time.monotonic() - table.looked_at <= CACHE_SECONDS and not _expired(shown):
                self._last_uses.note(public_id)
                return table.limits.of(shown.caller)
        match = FORMAT.fullmatch(key)
        if match is not None:
            public_id, secret = match[1].decode(), match[2]
            known = await self._known(public_id)
            if self._fits(known, secret):
                table = self._table
                if table.keys.get(public_id) is known:
                    table.proven[key] = public_id, known
                self._last_uses.note(public_id)
                return table.limits.of(known.caller)
        if digest := self._plain_digest(key):
            return self._table.limits.of(replace(await self._default(), digest=digest))
        raise Refused("invalid_api_key", "This API key is not valid, or no longer.")

    async def answers(self) -> bool:
        """Whether the database says at this moment who may ask; True where nobody asks it."""
        if self._no_auth or time.monotonic() - self._table.looked_at < CACHE_SECONDS:
            return True
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                await self._look_up.ask()
        except (DatabaseError, TimeoutError):
            return False
        return True

    async def close(self) -> None:
        await self._look_up.close()
        await self._reader.close()
        await self._last_uses.close()

    async def look(self) -> bool:
        """Whether the keys are known as they are from now on; while the database fails nothing new
        is known of any."""
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                await self._look_up.ask()
        except (DatabaseError, TimeoutError):
            return False
        return True

    def stands(self, public_id: str) -> bool:
        """Whether the key was usable at the last look, and has not expired since."""
        known = self._table.keys.get(public_id)
        return known is not None and not _expired(known)

    def as_known(self, caller: Caller) -> Caller:
        """What its key says at the last look, if that has it."""
        known = self._table.keys.get(caller.key)
        return caller if known is None else known.caller

    async def _of_session(self, public_id: str) -> Caller:
        """Of a key without a text, whose owner is known otherwise. Raises Refused."""
        known = await self._known(public_id)
        if known is NOBODY or _expired(known):
            raise Refused("permission_denied", "The playground is closed to you in this team.")
        self._last_uses.note(public_id)
        return self._table.limits.of(known.caller)

    async def _known(self, public_id: str) -> Known:
        """By the last look, or a new one. Raises Refused."""
        known = self._table.keys.get(public_id)
        age = time.monotonic() - self._table.looked_at
        if known is None or age > CACHE_SECONDS:
            return await self._newer(public_id, known if age < STALE_SECONDS else None)
        return known

    def _fits(self, known: Known, secret: bytes) -> bool:
        """Takes the same time for a wrong id and a wrong secret."""
        same = hmac.compare_digest(known.digest, secret_digest(secret, self._pepper))
        return same and not _expired(known)

    def _plain_digest(self, key: bytes) -> str:
        """Empty for a key that is none of the settings'."""
        if not self._plain:
            return ""
        digest = secret_digest(key, self._pepper)
        fits = any([hmac.compare_digest(digest, plain) for plain in self._plain])
        return digest if fits else ""

    async def _default(self) -> Caller:
        """As the database says; as it last said while it fails. Asked for once in a second, so that
        a database that hangs holds up one request of those that need nothing else of it."""
        now = time.monotonic()
        if now - max(self._table.looked_at, self._policy_asked_at) > CACHE_SECONDS:
            self._policy_asked_at = now
            await self._newer("", NOBODY)
        return self._table.default

    async def _newer(self, public_id: str, stale: Known | None) -> Known:
        """What the database says now; `stale` if it does not say it soon."""
        try:
            async with asyncio.timeout(
                LOOKUP_SECONDS if stale is None else LOOKUP_OF_KNOWN_SECONDS
            ):
                table = await self._look_up.ask()
        except (DatabaseError, TimeoutError) as error:
            logger.error("API keys cannot be looked up: %s", error or "the database is too slow")
            if stale is not None:
                return stale
            raise Refused(
                "auth_unavailable",
                "API keys cannot be checked at the moment.",
                retry_after_seconds=1.0,
            ) from error
        return table.keys.get(public_id, NOBODY)

    def _read(self) -> _Table:
        """In the thread. It is kept also when nobody waits for it any more."""
        begun = time.monotonic()
        keys = self._rows.read()
        default = self._rows.caller_of(DEFAULT_TEAM, OF_SETTINGS)
        self._table = _Table(begun, keys, default, read_limits())
        return self._table


def _expired(known: Known) -> bool:
    """By the wall clock, by which people have set it."""
    return known.expires_at is not None and known.expires_at <= time.time()
