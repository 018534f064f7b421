"""API keys: how they are made, and whose request this is.

A key is `ck_<public id>_<secret>`. The public id finds the row; the secret is 256 random bits, so a
keyed hash is enough (a slow one would let anybody keep the machine busy).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import re
import secrets
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import cast

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from proxy.conf import ProxyConfig
from proxy.headers import RawHeaders
from proxy.models import DEFAULT_TEAM, ApiKey, Scope, Team
from proxy.own_names import Aliases, own_names
from proxy.queries import CLOSE_SECONDS, DatabaseThread, Shared
from scheduler.protocol import OwnNames, PriorityName, Refused

logger = logging.getLogger(__name__)

_FORMAT = re.compile(rb"ck_([a-z2-7]{8})_([A-Za-z0-9_-]{43})")
_NO_DIGEST = "0" * 64

CACHE_SECONDS = 1.0
STALE_SECONDS = 5.0
"""A key that was good so long ago is still let in while the database fails or is too slow."""
SPACING_SECONDS = 0.2
"""Keys that nobody knows cost a query this often, all of them together."""
LOOKUP_SECONDS = 2.0
LOOKUP_OF_KNOWN_SECONDS = 0.25
TOUCH_SECONDS = 60.0
TOUCHED_AT_ONCE = 500
LOCK_WAIT_MILLISECONDS = 1000


@dataclass(frozen=True, slots=True)
class Policy:
    """How a team stands in the queue, and the aliases that are its own."""

    weight: float = 1.0
    priority: PriorityName = "normal"
    aliases: Aliases = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is. `key` is the key's public id, or empty; a key of the settings has none,
    and `digest` instead. `aliases` are the key's own."""

    team: str
    key: str = ""
    policy: Policy = Policy()
    aliases: Aliases = field(default_factory=dict)
    digest: str = ""

    @property
    def owner(self) -> str:
        """To whom its conversations belong: a key alone; without keys everybody."""
        return self.key or self.digest

    def own_names(self, name: str) -> OwnNames:
        """Where its own aliases lead for `name`."""
        return own_names(name, (self.aliases, self.policy.aliases))


def pepper(secret_key: str) -> bytes:
    """What digests are keyed with: a stolen database alone says nothing about any key."""
    return hmac.digest(secret_key.encode(), b"corral api keys", hashlib.sha256)


def secret_digest(secret: bytes, pepper: bytes) -> str:
    return hmac.digest(pepper, secret, hashlib.sha256).hex()


def create_key(
    name: str,
    team: str = DEFAULT_TEAM,
    *,
    expires_at: datetime | None = None,
    scope: str = Scope.INFERENCE,
) -> str:
    """A new key's text, which cannot be shown again. The team is made if it is missing.

    Raises ValidationError for a name that is empty or too long.
    """
    with transaction.atomic():
        owner = Team.objects.filter(name=team).first() or Team(name=team)
        owner.full_clean()
        owner.save()
        key = ApiKey(team=owner, name=name, expires_at=expires_at, scope=scope)
        text = give_secret(key)
        key.full_clean()
        key.save()
    return text


def give_secret(key: ApiKey) -> str:
    """Give an unsaved key its id and secret; returns the key's text."""
    key.public_id = base64.b32encode(secrets.token_bytes(5)).decode().lower()
    secret = secrets.token_urlsafe(32)
    key.digest = secret_digest(secret.encode(), pepper(settings.SECRET_KEY))
    return f"ck_{key.public_id}_{secret}"


def stored_key(text: bytes) -> ApiKey | None:
    """The usable key whose text this is, or None. One query, and no cache: for who manages.

    Takes the same time for a wrong id and a wrong secret.
    """
    match = _FORMAT.fullmatch(text)
    if match is None:
        return None
    public_id, secret = match.groups()
    key = _usable_key(public_id.decode())
    digest = secret_digest(secret, pepper(settings.SECRET_KEY))
    fits = hmac.compare_digest(_NO_DIGEST if key is None else key.digest, digest)
    if key is None or not fits:
        return None
    if key.expires_at is not None and key.expires_at <= timezone.now():
        return None
    return key


def note_use(key: ApiKey) -> None:
    """Its last use, exact to a minute."""
    due = timezone.now() - timedelta(seconds=TOUCH_SECONDS)
    if key.last_used_at is None or key.last_used_at < due:
        _set_last_use([key.public_id])


@dataclass(frozen=True, slots=True)
class _Known:
    """A usable key; the digest of nobody's matches nothing."""

    team: str = ""
    digest: str = _NO_DIGEST
    expires_at: float | None = None
    policy: Policy = Policy()
    aliases: Aliases = field(default_factory=dict)


_NOBODY = _Known()


@dataclass(frozen=True, slots=True)
class _Table:
    """All usable keys by public id, and when they were asked for. `default` is the default team's
    policy: it counts for the keys of `serve`'s command line."""

    looked_at: float
    keys: dict[str, _Known]
    default: Policy = Policy()


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
        match = _FORMAT.fullmatch(key)
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
        default = _default_policy() if self._plain else Policy()
        self._table = _Table(begun, _usable_keys(), default)
        return self._table


class LastUses:
    """Writes when keys were last used, exact to a minute: a figure for people, for which no request
    waits. What cannot be written is dropped."""

    def __init__(self) -> None:
        self._writer = DatabaseThread("key-uses", lock_wait_milliseconds=LOCK_WAIT_MILLISECONDS)
        self._noted: dict[str, float] = {}
        self._unwritten: set[str] = set()
        self._writing: asyncio.Task[None] | None = None

    def note(self, public_id: str) -> None:
        now = time.monotonic()
        if now - self._noted.get(public_id, -TOUCH_SECONDS) < TOUCH_SECONDS:
            return
        self._noted[public_id] = now
        self._unwritten.add(public_id)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name="last uses of keys")

    async def close(self) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=CLOSE_SECONDS)
            self._writing.cancel()
        await self._writer.close()

    async def _write(self) -> None:
        while self._unwritten:
            some = list(self._unwritten)[:TOUCHED_AT_ONCE]
            self._unwritten.difference_update(some)
            try:
                await self._writer.run(partial(_set_last_use, some))
            except DatabaseError as error:
                logger.warning("The last use of %d keys is not written: %s", len(some), error)


def _usable_key(public_id: str) -> ApiKey | None:
    keys = ApiKey.objects.select_related("team").filter(revoked_at=None)
    return keys.filter(public_id=public_id).first()


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
    return Policy() if found is None else _policy(*found)


def _policy(weight: float, priority: str, aliases: Aliases) -> Policy:
    return Policy(weight, cast(PriorityName, priority), aliases)


def _set_last_use(public_ids: list[str]) -> None:
    """Several processes may want to: whoever is first in a minute writes."""
    now = timezone.now()
    due = Q(last_used_at=None) | Q(last_used_at__lt=now - timedelta(seconds=TOUCH_SECONDS))
    ApiKey.objects.filter(due, public_id__in=public_ids).update(last_used_at=now)


def has_key(headers: RawHeaders) -> bool:
    return any(name in (b"authorization", b"x-api-key") for name, _ in headers)


def key_in(headers: RawHeaders) -> bytes:
    """The one key of a request. Two different ones would let each reader take another."""
    found: set[bytes] = set()
    for name, value in headers:
        if name == b"authorization":
            scheme, _, rest = value.strip().partition(b" ")
            found.add(rest.strip() if scheme.lower() == b"bearer" else value.strip())
        elif name == b"x-api-key":
            found.add(value.strip())
    found.discard(b"")
    if not found:
        raise Refused(
            "invalid_api_key",
            "An API key is needed: send `Authorization: Bearer <key>` or `X-Api-Key: <key>`.",
        )
    if len(found) > 1:
        raise Refused("invalid_api_key", "Two different API keys in one request: send one.")
    return found.pop()
