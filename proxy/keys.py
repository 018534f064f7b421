"""API keys: how they are made, found, and read out of a request.

A key is `ck_<public id>_<secret>`. The public id finds the row; the secret is 256 random bits, so a
keyed hash is enough (a slow one would let anybody keep the machine busy).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from proxy.headers import RawHeaders
from proxy.models import DEFAULT_TEAM, ApiKey, Team, usable
from proxy.scopes import USUAL
from scheduler.protocol import Refused

FORMAT = re.compile(rb"ck_([a-z2-7]{8})_([A-Za-z0-9_-]{43})")
NO_DIGEST = "0" * 64
"""The digest of no key."""


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
    scopes: Iterable[str] = USUAL,
) -> str:
    """A new service key's text, which cannot be shown again. The team is made if it is missing.

    Raises ValidationError for a name that is empty or too long, and for scopes that are none.
    """
    with transaction.atomic():
        owner = Team.objects.filter(name=team).first() or Team(name=team)
        owner.full_clean()
        owner.save()
        key = ApiKey(team=owner, name=name, expires_at=expires_at, scopes=[*scopes])
        text = give_secret(key)
        key.full_clean()
        key.save()
    return text


def give_secret(key: ApiKey) -> str:
    """Give an unsaved key its id and secret; returns the key's text. A key that takes the place of
    another one is of that one's line."""
    key.public_id = base64.b32encode(secrets.token_bytes(5)).decode().lower()
    key.line = key.line or key.public_id
    secret = secrets.token_urlsafe(32)
    key.digest = secret_digest(secret.encode(), pepper(settings.SECRET_KEY))
    return f"ck_{key.public_id}_{secret}"


def stored_key(text: bytes) -> ApiKey | None:
    """The usable key whose text this is, or None. One query, and no cache: for who manages.

    Takes the same time for a wrong id and a wrong secret.
    """
    match = FORMAT.fullmatch(text)
    if match is None:
        return None
    public_id, secret = match.groups()
    key = _usable_key(public_id.decode())
    digest = secret_digest(secret, pepper(settings.SECRET_KEY))
    fits = hmac.compare_digest(NO_DIGEST if key is None else key.digest, digest)
    if key is None or not fits:
        return None
    if key.expires_at is not None and key.expires_at <= timezone.now():
        return None
    return key


def _usable_key(public_id: str) -> ApiKey | None:
    rows = ApiKey.objects.select_related("team", "user")
    return rows.filter(usable(), public_id=public_id).first()


def has_key(headers: RawHeaders) -> bool:
    return any(name in (b"authorization", b"x-api-key") for name, _ in headers)


def key_in(headers: RawHeaders) -> bytes:
    """The one key of a request. Two different ones would let each reader take another."""
    found = b""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, rest = value.strip().partition(b" ")
            key = rest.strip() if scheme.lower() == b"bearer" else value.strip()
        elif name == b"x-api-key":
            key = value.strip()
        else:
            continue
        if found and key and key != found:
            raise Refused("invalid_api_key", "Two different API keys in one request: send one.")
        found = key or found
    if not found:
        raise Refused(
            "invalid_api_key",
            "An API key is needed: send `Authorization: Bearer <key>` or `X-Api-Key: <key>`.",
        )
    return found
