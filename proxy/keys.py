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
from dataclasses import dataclass
from datetime import datetime, timedelta

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from proxy.conf import ProxyConfig
from proxy.headers import RawHeaders
from proxy.models import DEFAULT_TEAM, ApiKey, Scope, Team
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

_FORMAT = re.compile(rb"ck_([a-z2-7]{8})_([A-Za-z0-9_-]{43})")
_NO_DIGEST = "0" * 64

CACHE_SECONDS = 1.0
CACHE_SIZE = 4096
LOOKUP_SECONDS = 2.0
TOUCH_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is. `key` is the key's public id, or empty."""

    team: str
    key: str = ""


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
        _set_last_use(key.public_id)


@dataclass(frozen=True, slots=True)
class _Known:
    """What a look-up found; the digest matches nothing when there is no such usable key."""

    looked_at: float
    team: str = ""
    digest: str = _NO_DIGEST
    expires_at: float | None = None


class KeyRing:
    """Says whose request it is. A revoked key is refused at most a second later."""

    def __init__(self, config: ProxyConfig) -> None:
        self._no_auth = config.no_auth
        self._pepper = pepper(config.secret_key)
        self._plain = [secret_digest(key.encode(), self._pepper) for key in config.api_keys]
        self._known: dict[bytes, _Known] = {}
        self._looking: dict[bytes, asyncio.Task[_Known]] = {}
        self._touched: dict[bytes, float] = {}
        self._touching: set[asyncio.Task[None]] = set()

    async def identify(self, headers: RawHeaders) -> Caller:
        """Raises Refused: `invalid_api_key`, or `auth_unavailable` when the database fails."""
        if self._no_auth:
            return Caller(DEFAULT_TEAM)
        key = key_in(headers)
        match = _FORMAT.fullmatch(key)
        if match is not None:
            public_id, secret = match.groups()
            known = self._known.get(public_id)
            if known is None or time.monotonic() - known.looked_at > CACHE_SECONDS:
                known = await self._look_up(public_id)
            if self._fits(known, secret):
                self._touch(public_id)
                return Caller(known.team, public_id.decode())
        if self._is_plain(key):
            return Caller(DEFAULT_TEAM)
        raise Refused("invalid_api_key", "This API key is not valid, or no longer.")

    async def close(self) -> None:
        tasks = [*self._touching, *self._looking.values()]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _fits(self, known: _Known, secret: bytes) -> bool:
        """Takes the same time for a wrong id and a wrong secret."""
        same = hmac.compare_digest(known.digest, secret_digest(secret, self._pepper))
        return same and (known.expires_at is None or time.time() < known.expires_at)

    def _is_plain(self, key: bytes) -> bool:
        if not self._plain:
            return False
        digest = secret_digest(key, self._pepper)
        return any([hmac.compare_digest(digest, plain) for plain in self._plain])

    async def _look_up(self, public_id: bytes) -> _Known:
        """One query for all who ask for the same key meanwhile."""
        task = self._looking.get(public_id)
        if task is None:
            task = asyncio.create_task(self._query(public_id), name="key look-up")
            task.add_done_callback(lambda _: self._looking.pop(public_id, None))
            self._looking[public_id] = task
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                return await asyncio.shield(task)
        except (DatabaseError, TimeoutError) as error:
            logger.error("API keys cannot be looked up: %s", error or "the database is too slow")
            raise Refused(
                "auth_unavailable",
                "API keys cannot be checked at the moment.",
                retry_after_seconds=1.0,
            ) from error

    async def _query(self, public_id: bytes) -> _Known:
        key = await database_sync_to_async(_usable_key)(public_id.decode())
        known = _Known(time.monotonic())
        if key is not None:
            expires_at = key.expires_at.timestamp() if key.expires_at is not None else None
            known = _Known(known.looked_at, key.team.name, key.digest, expires_at)
        self._known.pop(public_id, None)
        self._known[public_id] = known  # the newest last
        while len(self._known) > CACHE_SIZE:
            del self._known[next(iter(self._known))]
        return known

    def _touch(self, public_id: bytes) -> None:
        now = time.monotonic()
        if now - self._touched.get(public_id, -TOUCH_SECONDS) < TOUCH_SECONDS:
            return
        self._touched.pop(public_id, None)
        self._touched[public_id] = now
        while len(self._touched) > CACHE_SIZE:
            del self._touched[next(iter(self._touched))]
        task = asyncio.create_task(_write_last_use(public_id.decode()), name="key last use")
        self._touching.add(task)
        task.add_done_callback(self._touching.discard)


def _usable_key(public_id: str) -> ApiKey | None:
    keys = ApiKey.objects.select_related("team").filter(revoked_at=None)
    return keys.filter(public_id=public_id).first()


async def _write_last_use(public_id: str) -> None:
    try:
        await database_sync_to_async(_set_last_use)(public_id)
    except DatabaseError:
        # A figure for people: the request it belongs to is served all the same.
        logger.warning("The last use of key %s could not be written", public_id, exc_info=True)


def _set_last_use(public_id: str) -> None:
    """Several processes may want to: whoever is first in a minute writes."""
    now = timezone.now()
    due = Q(last_used_at=None) | Q(last_used_at__lt=now - timedelta(seconds=TOUCH_SECONDS))
    ApiKey.objects.filter(due, public_id=public_id).update(last_used_at=now)


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
