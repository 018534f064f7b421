"""Whose request this is: all usable keys, kept in memory and read again each second."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from dataclasses import dataclass, field
from typing import cast

from django.db import Error as DatabaseError

from proxy.callers import NO_POLICY, Caller, Policy
from proxy.conf import ProxyConfig
from proxy.headers import RawHeaders
from proxy.keys import FORMAT, NO_DIGEST, key_in, pepper, secret_digest
from proxy.last_uses import LastUses
from proxy.models import DEFAULT_TEAM, ApiKey, Team
from proxy.own_names import Aliases
from proxy.queries import DatabaseThread, Shared
from scheduler.protocol import PriorityName, Refused

logger = logging.getLogger(__name__)

CACHE_SECONDS = 1.0
STALE_SECONDS = 5.0
"""A key that was good so long ago is still let in while the database fails or is too slow."""
SPACING_SECONDS = 0.2
"""Keys that nobody knows cost a query this often, all of them together."""
LOOKUP_SECONDS = 2.0
LOOKUP_OF_KNOWN_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class _Known:
    """A usable key; the digest of nobody's matches nothing."""

    team: str = ""
    digest: str = NO_DIGEST
    expires_at: float | None = None
    policy: Policy = NO_POLICY
    aliases: Aliases = field(default_factory=dict)


_NOBODY = _Known()


@dataclass(frozen=True, slots=True)
class _Table:
    """All usable keys by public id, and when they were asked for. `default` is the default team's
    policy: it counts for the keys of `serve`'s command line."""

    looked_at: float
    keys: dict[str, _Known]
    default: Policy = NO_POLICY


class KeyRing:
    """Says whose request it is. A revoked key is refused at most a second later.

    All usable keys are kept, and read again when they are a second old and somebody asks: one query
    whoever comes, with whatever key. An unknown one waits for a look-up that began after it came,
    so a key that was just made works at once; a flood of them costs five queries a second and
    shuts nobody out.
    """

    def __init__(self, config: ProxyConfig) -> None:
        self._no_auth = config.no_auth
        self._pepper = pepper(config.secret_key)
        self._plain = [secret_digest(key.encode(), self._pepper) for key in config.api_keys]
        self._table = _Table(float("-inf"), {})
        self._policy_asked_at = float("-inf")
        self._reader = DatabaseThread("keys")
        self._look_up = Shared(self._reader, self._read, SPACING_SECONDS)
        self._last_uses = LastUses()

    async def identify(self, headers: RawHeaders) -> Caller:
        """Raises Refused: `invalid_api_key`, or `auth_unavailable` when the database fails."""
        if self._no_auth:
            return Caller(DEFAULT_TEAM)  # who shares with nobody needs no policy, and no query
        key = key_in(headers)
        match = FORMAT.fullmatch(key)
        if match is not None:
            public_id, secret = match[1].decode(), match[2]
            known = self._table.keys.get(public_id)
            age = time.monotonic() - self._table.looked_at
            if known is None or age > CACHE_SECONDS:
                known = await self._newer(public_id, known if age < STALE_SECONDS else None)
            if self._fits(known, secret):
                self._last_uses.note(public_id)
                return Caller(known.team, public_id, known.policy, known.aliases)
        if digest := self._plain_digest(key):
            return Caller(DEFAULT_TEAM, policy=await self._default_policy(), digest=digest)
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

    def _fits(self, known: _Known, secret: bytes) -> bool:
        """Takes the same time for a wrong id and a wrong secret."""
        same = hmac.compare_digest(known.digest, secret_digest(secret, self._pepper))
        return same and (known.expires_at is None or time.time() < known.expires_at)

    def _plain_digest(self, key: bytes) -> str:
        """Empty for a key that is none of the settings'."""
        if not self._plain:
            return ""
        digest = secret_digest(key, self._pepper)
        fits = any([hmac.compare_digest(digest, plain) for plain in self._plain])
        return digest if fits else ""

    async def _default_policy(self) -> Policy:
        """As the database says; as it last said while it fails. Asked for once in a second, so that
        a database that hangs holds up one request of those that need nothing else of it."""
        now = time.monotonic()
        if now - max(self._table.looked_at, self._policy_asked_at) > CACHE_SECONDS:
            self._policy_asked_at = now
            await self._newer("", _NOBODY)
        return self._table.default

    async def _newer(self, public_id: str, stale: _Known | None) -> _Known:
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
        return table.keys.get(public_id, _NOBODY)

    def _read(self) -> _Table:
        """In the thread. It is kept also when nobody waits for it any more."""
        begun = time.monotonic()
        default = _default_policy() if self._plain else NO_POLICY
        self._table = _Table(begun, _usable_keys(), default)
        return self._table


def _usable_keys() -> dict[str, _Known]:
    rows = ApiKey.objects.filter(revoked_at=None).order_by()
    found = rows.values_list(
        "public_id", "team__name", "digest", "expires_at", "aliases",
        "team__weight", "team__priority", "team__aliases",
    )  # fmt: skip
    return {
        public_id: _Known(
            team,
            digest,
            None if expires_at is None else expires_at.timestamp(),
            _policy(*policy),
            aliases,
        )
        for public_id, team, digest, expires_at, aliases, *policy in found
    }


def _default_policy() -> Policy:
    rows = Team.objects.filter(name=DEFAULT_TEAM)
    found = rows.values_list("weight", "priority", "aliases").first()
    return NO_POLICY if found is None else _policy(*found)


def _policy(weight: float, priority: str, aliases: Aliases) -> Policy:
    return Policy(weight, cast(PriorityName, priority), aliases)
