"""A thousand answers of the real engine, as record_answers.py has found them on its socket."""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

import msgspec

ANSWERS = Path(__file__).parent / "captured" / "answers.xz"


class Captured(msgspec.Struct, frozen=True):
    """A request, and every byte that came back: head, chunks and all."""

    path: str
    body: bytes
    raw: bytes

    @property
    def status(self) -> int:
        return int(self.raw.split(b" ", 2)[1])

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """As they came, names in lower case."""
        lines = self.raw.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
        pairs = (line.partition(b": ") for line in lines)
        return [(name.lower(), value) for name, _, value in pairs]

    @property
    def is_stream(self) -> bool:
        return dict(self.headers).get(b"content-type", b"").startswith(b"text/event-stream")

    @property
    def payload(self) -> bytes:
        """The body without its framing."""
        rest = self.raw.partition(b"\r\n\r\n")[2]
        if dict(self.headers).get(b"transfer-encoding") != b"chunked":
            return rest
        parts = []
        while True:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            if not length:
                assert rest == b"\r\n"
                return b"".join(parts)
            parts.append(rest[:length])
            rest = rest[length + 2 :]


def write(captured: list[Captured]) -> None:
    ANSWERS.write_bytes(lzma.compress(msgspec.msgpack.encode(captured), preset=9))


@cache
def answers() -> list[Captured]:
    return msgspec.msgpack.decode(lzma.decompress(ANSWERS.read_bytes()), type=list[Captured])
