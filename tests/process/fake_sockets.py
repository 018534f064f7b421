"""The WebSocket of a stand-in child, by the standard library alone: it repeats what it hears.

What begins with `!` it obeys: `!close CODE REASON`, `!die`, and `!say N SECONDS`, which says N
messages, so many seconds apart, unasked.
"""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import struct
import time
from http.server import BaseHTTPRequestHandler

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def speak(handler: BaseHTTPRequestHandler) -> None:
    """From the handshake to the close."""
    key = handler.headers["Sec-WebSocket-Key"] + _GUID
    handler.send_response(101)
    handler.send_header("Upgrade", "websocket")
    handler.send_header("Connection", "Upgrade")
    accepted = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    handler.send_header("Sec-WebSocket-Accept", accepted)
    handler.end_headers()
    handler.close_connection = True
    while (frame := _read(handler)) is not None:
        opcode, data = frame
        if opcode == CLOSE:
            _write(handler, CLOSE, data)
            return
        if opcode == PING:
            _write(handler, PONG, data)
        elif data[:1] == b"!":
            _obey(handler, data.decode().split(" ", 2))
        elif opcode != PONG:
            _write(handler, opcode, data)


def _obey(handler: BaseHTTPRequestHandler, words: list[str]) -> None:
    match words:
        case ["!close", code, reason]:
            _write(handler, CLOSE, struct.pack("!H", int(code)) + reason.encode())
        case ["!say", count, seconds]:
            for number in range(int(count)):
                _write(handler, TEXT, f"{number}".encode())
                time.sleep(float(seconds))
        case _:
            os.kill(os.getpid(), signal.SIGKILL)


def _read(handler: BaseHTTPRequestHandler) -> tuple[int, bytes] | None:
    """One whole frame; None when the other side has gone."""
    head = handler.rfile.read(2)
    if len(head) < 2:
        return None
    length = head[1] & 127
    if length == 126:
        (length,) = struct.unpack("!H", handler.rfile.read(2))
    elif length == 127:
        (length,) = struct.unpack("!Q", handler.rfile.read(8))
    mask = handler.rfile.read(4)
    data = handler.rfile.read(length)
    masks = (mask * (length // 4 + 1))[:length]
    plain = int.from_bytes(data, "big") ^ int.from_bytes(masks, "big")
    return head[0] & 15, plain.to_bytes(length, "big")


def _write(handler: BaseHTTPRequestHandler, opcode: int, data: bytes) -> None:
    size = len(data)
    if size < 126:
        length = bytes([size])
    elif size < 1 << 16:
        length = b"\x7e" + struct.pack("!H", size)
    else:
        length = b"\x7f" + struct.pack("!Q", size)
    handler.wfile.write(bytes([128 | opcode]) + length + data)
    handler.wfile.flush()
