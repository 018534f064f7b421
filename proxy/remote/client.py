"""The connections to remote servers: one pool a process, kept alive between requests."""

from __future__ import annotations

import logging
import socket
import ssl
from typing import TYPE_CHECKING, Any

from models_registry import kept_secrets
from models_registry.remote_addresses import why_not
from proxy.remote.request import RemoteRequest

if TYPE_CHECKING:
    import aiohttp

    from proxy.remote.answer import RemoteAnswer

logger = logging.getLogger(__name__)

KEPT_SECONDS = 15.0
"""How long an idle connection is kept: less than most servers keep theirs."""

LONGEST_FIELD = 32 << 10
"""Bytes of one header of an answer."""

_ADDED_BY_ITSELF = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
"""What the library would add: bytes pass as the remote sends them, so none are to be packed."""


class RemoteClient:
    """It connects when it is first asked. Environment variables of proxies count for nothing: only
    `proxy`, a URL, does. Certificates are verified against the system's authorities, or those of
    SSL_CERT_FILE."""

    def __init__(self, *, via: str, proxy: str = "") -> None:
        """`via` is what this gateway calls itself where it asks."""
        self.via = via
        self._proxy = proxy or None
        self._session: aiohttp.ClientSession | None = None
        self._keys: dict[str, str] = {}

    def answer(self, request: RemoteRequest) -> RemoteAnswer:
        from proxy.remote.answer import RemoteAnswer  # aiohttp

        if self._session is None:
            self._session = self._opened()
        return RemoteAnswer(self._session, request)

    def key(self, reference: str) -> str:
        """The secret behind a preset's reference; a new secret has a new reference. It is a read of
        a few bytes, once in a process's life."""
        if reference and reference not in self._keys:
            secret = kept_secrets.read(reference)
            if not secret:
                logger.error("the key of an upstream is gone from the folder of secrets")
                return ""
            self._keys[reference] = secret
        return self._keys.get(reference, "")

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp

        connector = aiohttp.TCPConnector(
            limit=0,  # the scheduler counts what is under way
            keepalive_timeout=KEPT_SECONDS,
            ssl=ssl.create_default_context(),
            socket_factory=_checked_socket,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_ADDED_BY_ITSELF,
            trust_env=False,
            proxy=self._proxy,
            max_line_size=LONGEST_FIELD,
            max_field_size=LONGEST_FIELD,
        )


def _checked_socket(address: tuple[Any, ...]) -> socket.socket:
    """For one address of a host, whichever name led to it. Raises OSError for one that no preset
    may reach."""
    family, kind, protocol, _, (host, *_) = address
    if why := why_not(str(host)):
        raise OSError(f"{host} {why}")
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    return made
