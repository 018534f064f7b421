"""What a server enforces before the application is called. One value for both servers."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

MAX_HEADER_FIELDS = 100


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes. The header deadline runs from the connection, or, on one that is kept alive,
    from the first byte of the next request; idle ones end after `keep_alive_seconds`, and those
    whose client takes nothing of an answer after `slow_reader_timeout_seconds`."""

    max_headers: int
    header_timeout_seconds: float
    keep_alive_seconds: float
    max_connections: int
    drain_timeout_seconds: float
    slow_reader_timeout_seconds: float


def limits_from_settings() -> Limits:
    return Limits(
        max_headers=settings.CORRAL_MAX_HEADERS,
        header_timeout_seconds=settings.CORRAL_HEADER_TIMEOUT,
        keep_alive_seconds=settings.CORRAL_KEEP_ALIVE,
        max_connections=settings.CORRAL_MAX_CONNECTIONS,
        drain_timeout_seconds=settings.CORRAL_DRAIN_TIMEOUT,
        slow_reader_timeout_seconds=settings.CORRAL_SLOW_READER_TIMEOUT,
    )
