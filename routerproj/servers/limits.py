"""What a server enforces before the application is called. One value for both servers."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from django.conf import settings

from models_registry.client_address import Network

MAX_HEADER_FIELDS = 100
LONGEST_PAUSE = 32767
LONGEST_TIMEOUT = (1 << 31) - 1
"""What the kernel takes, in seconds and in milliseconds."""
PING_SECONDS = 20.0
"""How often the client of a WebSocket is asked whether it is there, and how long it may take to
answer: one that has gone without a word is noticed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes. The header deadline runs from the connection, or, on one that is kept alive,
    from the first byte of the next request; idle ones end after `keep_alive_seconds`, and those
    whose client takes nothing of an answer after `slow_reader_timeout_seconds`, and those whose
    client's machine does not even say that it is there after `dead_client_timeout_seconds`.
    `max_message` is a WebSocket's. `max_per_address` are connections of one address, 0 without a
    limit; those of this machine and of `proxies` are not counted, as they are of many."""

    max_headers: int
    header_timeout_seconds: float
    keep_alive_seconds: float
    max_connections: int
    drain_timeout_seconds: float
    slow_reader_timeout_seconds: float
    max_message: int
    dead_client_timeout_seconds: float = 60.0
    max_per_address: int = 0
    proxies: tuple[Network, ...] = ()


def limits_from_settings() -> Limits:
    return Limits(
        max_headers=settings.CORRAL_MAX_HEADERS,
        header_timeout_seconds=settings.CORRAL_HEADER_TIMEOUT,
        keep_alive_seconds=settings.CORRAL_KEEP_ALIVE,
        max_connections=settings.CORRAL_MAX_CONNECTIONS,
        drain_timeout_seconds=settings.CORRAL_DRAIN_TIMEOUT,
        slow_reader_timeout_seconds=settings.CORRAL_SLOW_READER_TIMEOUT,
        dead_client_timeout_seconds=settings.CORRAL_DEAD_CLIENT_TIMEOUT,
        max_message=settings.CORRAL_WEBSOCKET_MESSAGE,
        max_per_address=settings.CORRAL_CONNECTIONS_PER_ADDRESS,
        proxies=settings.CORRAL_TRUSTED_PROXIES,
    )


def notice_dead_clients(listener: socket.socket, limits: Limits) -> None:
    """A client that lost its power or its cable closes nothing. The kernel asks after those who are
    silent, on each connection that comes of `listener`, and ends those that do not acknowledge."""
    longest = limits.dead_client_timeout_seconds
    # It counts for readers that take nothing, too: those have a limit of their own.
    unacknowledged = max(longest, limits.slow_reader_timeout_seconds)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, min(longest / 2, LONGEST_PAUSE)),
        (socket.TCP_KEEPINTVL, min(longest / 6, LONGEST_PAUSE)),
        (socket.TCP_USER_TIMEOUT, min(unacknowledged * 1000, LONGEST_TIMEOUT)),
    ):
        listener.setsockopt(socket.IPPROTO_TCP, option, max(1, round(value)))
