"""Waiting for a load that has been asked for, by a connection that is only that: to leave it ends
nothing."""

from __future__ import annotations

import socket as sockets
from pathlib import Path
from types import TracebackType
from typing import Self

from .calling import decode_reply, line_of, refused_by, unavailable
from .protocol import LINE_LIMIT, Load


class LoadWaiter:
    """Joins those who wait for `preset`. Raises Refused, here or when it is asked, with the reason
    why the load failed."""

    def __init__(self, socket: Path, preset: str) -> None:
        self._connection = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        self._received = b""
        try:
            self._connection.connect(str(socket))
            self._connection.sendall(line_of(Load(1, preset, wait=True)) + b"\n")
        except OSError as failure:
            self._connection.close()
            raise unavailable() from failure

    def is_loaded(self, within_seconds: float) -> bool:
        """Whether it is, by the end of that time."""
        self._connection.settimeout(within_seconds)
        try:
            received = self._connection.recv(LINE_LIMIT)
        except TimeoutError:
            return False
        except OSError as failure:
            raise unavailable() from failure
        if not received:
            raise unavailable()
        self._received += received
        if not self._received.endswith(b"\n"):
            return False
        reply = decode_reply(self._received)
        if reply.error is not None:
            raise refused_by(reply)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()
