"""A connection to a child on a bare socket, read when the loop says that something has come.

It does what a transport of the loop's does, for a sixth of its cost: one is made for each request,
and it waits for no turn of the loop before its first write.
"""

from __future__ import annotations

import asyncio
from _socket import socket as Socket
from typing import Protocol

READ_AT_ONCE = 64 << 10
MOST_UNSENT = 64 << 10
"""Bytes that may wait here before whoever writes is told to pause."""


class Peer(Protocol):
    """Who reads and writes. `connection_lost` comes once, also when it was our own `abort`."""

    def data_received(self, data: bytes) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class _Nobody:
    """Who hears of a wire that is closed."""

    def data_received(self, data: bytes) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


_NOBODY = _Nobody()


class Wire:
    """Owns `connection`, which is connected and does not block.

    What cannot be written is no end: the child may have answered before it broke off, so it ends
    when everything is read.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: Socket, peer: Peer) -> None:
        self._loop = loop
        self._socket = connection
        self._file = connection.fileno()
        self._peer = peer
        self._unsent = bytearray()
        self._pauses = False
        self._reads = False
        self._closed = False
        self._broken: OSError | None = None
        self.resume_reading()

    def is_closing(self) -> bool:
        """Nothing that is written now arrives."""
        return self._closed or self._broken is not None

    def write(self, data: bytes) -> None:
        if self.is_closing():
            return
        sent = 0 if self._unsent else self._send(data)
        if sent == len(data) or self.is_closing():
            return
        if not self._unsent:
            self._loop.add_writer(self._file, self._write_on)
        self._unsent += memoryview(data)[sent:]
        if len(self._unsent) > MOST_UNSENT and not self._pauses:
            self._pauses = True
            self._peer.pause_writing()

    def pause_reading(self) -> None:
        if self._reads:
            self._reads = False
            self._loop.remove_reader(self._file)

    def resume_reading(self) -> None:
        if not self._reads and not self._closed:
            self._reads = True
            self._loop.add_reader(self._file, self._read)

    def abort(self) -> None:
        self._close(None)

    def _read(self) -> None:
        try:
            data = self._socket.recv(READ_AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._close(error)
            return
        if data:
            self._peer.data_received(data)
        else:
            self._close(self._broken)

    def _send(self, data: bytes | bytearray) -> int:
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._broken = error
            return 0

    def _write_on(self) -> None:
        sent = self._send(self._unsent)
        del self._unsent[: len(self._unsent) if self._broken else sent]
        if not self._unsent:
            self._loop.remove_writer(self._file)
        if self._pauses and len(self._unsent) <= MOST_UNSENT // 4:
            self._pauses = False
            self._peer.resume_writing()

    def _close(self, error: Exception | None) -> None:
        if self._closed:
            return
        self._closed = True
        self.pause_reading()
        if self._unsent:
            self._unsent.clear()
            self._loop.remove_writer(self._file)
        self._socket.close()
        peer, self._peer = self._peer, _NOBODY  # who refers to us: no garbage for a collector
        peer.connection_lost(error)
