"""One request's meter: what is found out about it on its way, and the records that come of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from proxy.log_context import is_for
from proxy.sse import Tail
from proxy.tokens import hex_name
from proxy.usage.counting import (
    NOTHING,
    UNKNOWN,
    WITHOUT_TEXT,
    Counted,
    Seen,
    count,
    prompt_estimate,
)
from proxy.usage.open_records import Opened, OpenRecord, OpenRecords
from proxy.usage.record import LONGEST_CLIENT, Content, Record
from proxy.watch import Cause, Interrupted
from scheduler.protocol import ERRORS, Refused

if TYPE_CHECKING:
    from proxy.body import Body
    from proxy.callers import Caller
    from proxy.content.capture import Capture
    from proxy.dialects import Dialect
    from scheduler.client import Lease

SWITCHED = 101
"""The status of a WebSocket."""
CLIENT_CLOSED = 499
"""The status of a request whose client left: nobody was there to be told another."""

KILLED = "process_killed"
"""Why an end was not told: the process that carried it is gone."""
UNRECORDED = "usage_unavailable"
"""Why the journal takes no more: what is refused for it is not for the journal."""

_CODES = {
    Cause.CLIENT_GONE: "client_gone",
    Cause.SLOW_READER: "slow_reader",
    Cause.BODY_IDLE: "request_timeout",
    Cause.FIRST_BYTE: "first_byte_timeout",
    Cause.BETWEEN_TOKENS: "answer_timeout",
    Cause.ANSWER_LIMIT: "answer_timeout",
    Cause.SHUTDOWN: "shutting_down",
    Cause.KEY_ENDED: "invalid_api_key",
    Cause.SESSION_ENDED: "invalid_api_key",
}

Write = Callable[[Record], None]


class Begun(Protocol):
    """An answer; before its head has come, its status is 0."""

    @property
    def status(self) -> int: ...
    @property
    def is_stream(self) -> bool: ...


class Asking(msgspec.Struct, frozen=True):
    """Of a request, what is known when it comes. `id` is what its client knows it by, `trace` what
    it says that it is a part of, if that is believed."""

    id: str
    path: str
    dialect: Dialect
    caller: Caller
    client: bytes = b""
    trace: str = ""

    @property
    def dialect_name(self) -> str:
        return self.dialect.__module__.rpartition(".")[2]


def nothing(record: Record) -> None:
    """For what is not recorded: looks, which take no model's time."""


class Meter:
    """Writes one record for each try, once; after that it is silent. Whoever carries a request on
    for another takes it over with `hand_over`."""

    def __init__(
        self,
        asking: Asking,
        write: Write,
        loop: asyncio.AbstractEventLoop,
        capture: Capture | None = None,
        open_records: OpenRecords | None = None,
    ) -> None:
        """`capture` for a team whose prompts and answers are stored."""
        self.id = hex_name(16)
        """Of this request alone, and the same for each of its tries."""
        self.asking = asking
        self.model = ""
        """As the client named it."""
        self.prompt: int | None = None
        """An estimate of its tokens; None where there is nothing to be read."""
        self._write = write
        self._capture = capture
        self._loop = loop
        self._at = time.time()
        self._began = loop.time()
        self._attempt = 0
        self._waits_since: float | None = None
        self._queue_wait: float | None = None
        self._load_wait: float | None = None
        self._granted: float | None = None
        self._first: float | None = None
        self._lease: Lease | None = None
        self._stream = False
        self._status = 0
        self._over = False
        self._open_records = open_records
        self._open: OpenRecord | None = None

    # On its way ----------------------------------------------------------------------------------

    @property
    def keeps_content(self) -> bool:
        return self._capture is not None

    def tail(self) -> Tail:
        """What is to see the answer go by."""
        return Tail() if self._capture is None else self._capture.answer

    def asks_for(self, model: str) -> None:
        """As the client names it."""
        self.model = model
        is_for(model)

    def reads(self, body: Body) -> None:
        """A body of JSON."""
        self.prompt = prompt_estimate(body.size)
        if self._capture is not None:
            self._capture.asks(body)

    def waits(self) -> None:
        self._waits_since = self._loop.time()

    def granted(self, lease: Lease) -> None:
        self._queue_wait = self._since(self._waits_since)
        self._waits_since = None
        self._load_wait = lease.loading
        self._granted = self._since(self._began)
        self._lease = lease
        is_for(lease.preset)

    def answers(self, answer: Begun) -> None:
        """Its first bytes have come, and its client is told of them."""
        if self._first is None:
            self._first = self._since(self._began)
        self._status, self._stream = answer.status, answer.is_stream

    def times(self) -> tuple[bytes, bytes]:
        """How long it has waited for a slot, and how long of that for a load, as a header."""
        queue, load = (1000 * (each or 0.0) for each in (self._queue_wait, self._load_wait))
        return b"server-timing", b"queue;dur=%.1f, load;dur=%.1f" % (queue, load)

    def opens_conversation(self, owner: str, id: str) -> None:
        """Its stream is granted, and goes on when this process is killed."""
        assert self._lease is not None
        self._stream = True
        record = self._made(200, KILLED, Counted(self.prompt, estimated=True), charged=True)
        self._opens(Opened(record, owner, id, self._lease.stream))

    def opens_socket(self) -> None:
        """A WebSocket is open."""
        self._opens(self._so_far(UNKNOWN))

    def so_far(self, counted: Counted) -> None:
        """What an open WebSocket has taken until now."""
        if self._open is not None:
            self._open.tell(self._so_far(counted))

    def _so_far(self, counted: Counted) -> Opened:
        return Opened(self._made(SWITCHED, KILLED, _guessed(counted), charged=True))

    def _opens(self, opened: Opened) -> None:
        if self._open_records is not None:
            self._open = self._open_records.open(opened)

    # Its end -------------------------------------------------------------------------------------

    def count(self, answer: Begun, tail: Tail, passed: int, *, whole: bool) -> Counted:
        """What an answer took that `tail` has seen go by, `passed` bytes of it."""
        if answer.status >= 400:
            return NOTHING
        self._stream = answer.is_stream
        seen = Seen(passed, tail.events, answer.is_stream)
        return count(self.asking.path, tail.usage(), seen, self.prompt, whole=whole)

    def answered(self, counted: Counted) -> None:
        """The answer is whole, whatever it says."""
        self._record(self._status, "", counted, charged=self._status < 400)

    def served(self) -> None:
        """It was done as asked, and no model had to compute for it."""
        self._record(200, "", NOTHING, charged=True)

    def declined(self, status: int) -> None:
        """A model's server would not do it, by this status."""
        self._record(status, "", NOTHING, charged=False)

    def closed(self, counted: Counted) -> None:
        """A WebSocket has come to its end."""
        self._record(SWITCHED, "", counted, charged=True)

    def cut(self, error: BaseException, counted: Counted) -> None:
        """A model has begun to work, and its answer will not be whole."""
        status, code = self._said_of(error)
        self._record(status, code, counted, charged=True)

    def failed_try(self, code: str) -> None:
        """The instance is gone, and the request is tried again. Nobody pays for it."""
        self._record(ERRORS[code].status, code, UNKNOWN, charged=False, final=False)
        self._over = False
        self._attempt += 1
        self._lease = None
        self._first = self._granted = None

    def failed(self, error: BaseException) -> None:
        """It ends without an answer: refused, or left by its client. For any request, at its very
        end: nothing is said twice."""
        status, code = self._said_of(error)
        if code == UNRECORDED:
            return
        if self._waits_since is not None:
            self._queue_wait = self._since(self._waits_since)
        self._record(status, code, UNKNOWN, charged=False)

    def hand_over(self) -> Meter:
        """To whoever carries on: this one is silent from now on."""
        other = object.__new__(Meter)
        other.__dict__.update(self.__dict__)
        self._over = True
        return other

    def _record(
        self, status: int, code: str, counted: Counted, *, charged: bool, final: bool = True
    ) -> None:
        if self._over:
            return
        self._over = True
        record = self._made(status, code, counted, charged=charged, final=final)
        if final and self._lease is not None:
            record.content = self._content()
        self._write(record)
        if self._open is not None:
            self._open.close()
            self._open = None

    def _made(
        self, status: int, code: str, counted: Counted, *, charged: bool, final: bool = True
    ) -> Record:
        asking, caller, lease = self.asking, self.asking.caller, self._lease
        return Record(
            record=self._record_id(),
            request_id=asking.id,
            at=self._at,
            attempt=self._attempt,
            final=final,
            team=caller.team,
            team_id=caller.policy.team_id,
            key=caller.key,
            key_name=caller.key_name,
            user=caller.user,
            asked=self.model,
            preset="" if lease is None else lease.preset,
            instance=None if lease is None else lease.instance,
            path=asking.path,
            dialect=asking.dialect_name,
            stream=self._stream,
            status=status,
            code=code,
            read=counted.read,
            cached=counted.cached,
            answered=counted.answered,
            estimated=counted.estimated,
            charged=charged,
            queue_wait=self._queue_wait,
            load_wait=self._load_wait,
            first_token=self._first,
            duration=self._since(self._began),
            client=asking.client[:LONGEST_CLIENT].decode("latin-1"),
            upstream=lease is not None,
            granted=self._granted,
            trace=asking.trace,
        )

    def _content(self) -> Content | None:
        if self._capture is None:
            return None
        is_text = self.asking.path not in WITHOUT_TEXT
        return self._capture.content(is_stream=self._stream, is_text=is_text)

    def _record_id(self) -> str:
        """A conversation's is that of its stream, whoever carries it."""
        if self._lease is not None and self._lease.stream:
            return stream_record(self._lease.stream)
        return f"{self.id}-{self._attempt}"

    def _since(self, when: float | None) -> float | None:
        """To the microsecond: `round` would take as long as the rest of a record."""
        return None if when is None else int((self._loop.time() - when) * 1e6) / 1e6

    def _said_of(self, error: BaseException) -> tuple[int, str]:
        """What its client was told, or would have been."""
        if isinstance(error, Refused):
            answer = self.asking.dialect(error, self.model)
            return self._status or answer.status, error.code
        if isinstance(error, Interrupted):
            code = _CODES[error.cause]
        elif isinstance(error, asyncio.CancelledError):
            code = "shutting_down"
        else:
            code = "internal_error"
        kind = ERRORS.get(code)
        if kind is None:  # nobody was there
            return CLIENT_CLOSED, code
        return self._status or kind.status, code


def _guessed(counted: Counted) -> Counted:
    return msgspec.structs.replace(counted, estimated=True)


def stream_record(stream: str) -> str:
    return f"stream-{stream}"
