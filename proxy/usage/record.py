"""What is recorded of one try of a request: a line of the journal, then a row."""

from __future__ import annotations

import msgspec

LONGEST_CLIENT = 100
"""Characters of a User-Agent that are kept."""


class Content(msgspec.Struct, omit_defaults=True):
    """What was asked and answered, redacted, for teams that want it kept. `cut`: one of them was
    longer than is kept."""

    prompt: str
    answer: str
    cut: bool = False


class Record(msgspec.Struct, omit_defaults=True):
    """`record` is made by the process, and nobody else's; `request_id` is what the client knows it
    by. `at` is the beginning, in seconds since 1970, by which days are told; durations are in
    seconds by a clock that does not jump. `final`: no other try followed. Tokens that nobody has
    counted are None. `granted`: from the beginning to when it had its slot; `trace`: of what trace
    its client says that it is a part (W3C), where that is believed.
    docs/usage.md explains the fields to users."""

    record: str
    request_id: str
    at: float
    attempt: int = 0
    final: bool = True
    team: str = ""
    team_id: int = 0
    key: str = ""
    key_name: str = ""
    user: str = ""
    asked: str = ""
    preset: str = ""
    instance: int | None = None
    path: str = ""
    dialect: str = ""
    stream: bool = False
    status: int = 0
    code: str = ""
    read: int | None = None
    cached: int | None = None
    answered: int | None = None
    estimated: bool = False
    charged: bool = False
    queue_wait: float | None = None
    load_wait: float | None = None
    first_token: float | None = None
    duration: float | None = None
    client: str = ""
    upstream: bool = False
    granted: float | None = None
    trace: str = ""
    content: Content | None = None


_encoder = msgspec.json.Encoder()
_decode = msgspec.json.Decoder(Record).decode


def line_of(record: Record) -> bytes:
    return _encoder.encode(record) + b"\n"


def record_in(line: bytes) -> Record | None:
    """None for a line that was not written to its end."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
