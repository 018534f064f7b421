"""The load: a process of its own, so that it competes as little as possible with what it measures.

    echo '{"port": 8080, "key": "", "clients": 1, …}' | python -m benchmarks.load

Sockets, one canned request, answers only counted: about a tenth of what a proxy spends on one.
`wrk`, where it is installed, is cheaper still; it is taken for whole answers of many clients.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import uvloop

PATH = "/v1/chat/completions"
ANSWER_SECONDS = 30
"""Longer than any answer takes, on a busy machine too."""
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Load:
    """What is asked of a subject in one round. With `pace_ms` each client asks once, and the fake
    upstream sends one token of the stream every so many milliseconds."""

    name: str
    clients: int
    stream: bool
    tokens: int = 1
    pace_ms: int = 0

    def body(self) -> str:
        messages = [{"role": "user", "content": "Say hi."}]
        fields = {"max_tokens": self.tokens, "ignore_eos": True, "stream": self.stream}
        pace = {"pace_ms": self.pace_ms} if self.pace_ms else {}
        return json.dumps({"model": "alpha", "messages": messages, **fields, **pace})

    def request(self, key: str) -> bytes:
        body = self.body()
        return (
            f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()


@dataclass(frozen=True)
class Order:
    """One measurement. `fresh`: a connection of its own for every request."""

    port: int
    key: str
    load: Load
    seconds: float
    fresh: bool = False


@dataclass(frozen=True)
class Outcome:
    answers: int
    seconds: float
    first_byte_ms: float | None
    """Median from the request to the first byte of the answer's body; a connection that has to be
    opened for it, because the last one was closed, counts."""
    cpu_seconds: float
    """What the generator itself spent."""
    answer_ms: float | None = None
    """Median from the request to the end of the answer."""
    slowest_ms: float | None = None
    late_ms: float | None = None
    """Of a paced stream: how much after its time a token came, of 100 the latest but one (p99).
    Its time is that of the stream's first token, and the pace for each one since."""

    @property
    def per_second(self) -> float:
        return self.answers / self.seconds


def run(order: Order) -> Outcome:
    """Raises RuntimeError on anything but whole answers with status 200."""
    if wrk_is_for(order):
        return _by_wrk(order)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"],
        cwd=ROOT,
        input=json.dumps(asdict(order)),
        capture_output=True,
        text=True,
        timeout=order.seconds + order.load.tokens * order.load.pace_ms / 1000 + 60,
    )
    if done.returncode:
        raise RuntimeError(f"port {order.port}, {order.load}: {done.stderr[-2000:]}")
    return Outcome(**json.loads(done.stdout))


# wrk ---------------------------------------------------------------------------------------------

_SCRIPT = """\
wrk.method = "POST"
wrk.body = %s
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %s"
function done(s)
  local e = s.errors
  local failed = e.connect + e.read + e.write + e.status + e.timeout
  io.write(string.format("counted %%d %%d %%d\\n", s.requests, s.duration, failed))
end
"""


def wrk_is_for(order: Order) -> bool:
    """It neither sees first bytes nor opens a connection for each request, and counts seconds."""
    many = order.load.clients > 1 and not order.load.stream
    return many and not order.fresh and order.seconds >= 1 and shutil.which("wrk") is not None


def _by_wrk(order: Order) -> Outcome:
    clients, seconds = order.load.clients, round(order.seconds)
    before = _children_cpu()
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        # A JSON string without backslashes beyond \" is a Lua string too
        script.write(_SCRIPT % (json.dumps(order.load.body()), order.key))
        script.flush()
        command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "30s"]
        command += ["-s", script.name, f"http://127.0.0.1:{order.port}{PATH}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    found = re.search(r"^counted (\d+) (\d+) (\d+)$", done.stdout, re.MULTILINE)
    if not found or int(found[3]):
        raise RuntimeError(f"the load failed: {done.stdout} {done.stderr}")
    answers, microseconds = int(found[1]), int(found[2])
    return Outcome(answers, microseconds / 1e6, None, _children_cpu() - before)


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# Our own -----------------------------------------------------------------------------------------


class _Client(asyncio.Protocol):
    """Asks until its time is over, on one connection or on one after another."""

    def __init__(self, order: Order, stop_at: float) -> None:
        self.answered = 0
        self.first_bytes: list[float] = []
        self.whole: list[float] = []
        self.late: list[float] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._order = order
        self._request = order.load.request(order.key)
        self._stop_at = stop_at
        self._buffer = bytearray()
        self._head_end = -1
        self._whole_at: int | None = None
        self._begun_at = 0.0
        self._asked_at = 0.0
        self._pace = order.load.pace_ms / 1000
        self._first_token_at = 0.0
        self._tokens = 0
        self._renewing: asyncio.Task[None] | None = None

    @property
    def waits_for(self) -> str:
        come = f"{len(self._buffer)} bytes have come, at the end {bytes(self._buffer[-200:])!r}"
        return f"after {self.answered} others, {come}; connecting: {self._renewing is not None}"

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, "127.0.0.1", self._order.port)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._renewing = None
        self._ask()

    def data_received(self, data: bytes) -> None:
        if self._renewing is not None:
            return  # of a connection that we have left
        buffer = self._buffer
        buffer += data
        if self._head_end < 0:
            self._head_end = buffer.find(b"\r\n\r\n") + 4
            if self._head_end < 4:
                self._head_end = -1
                return
            length = _LENGTH.search(buffer, 0, self._head_end)
            self._whole_at = self._head_end + int(length[1]) if length else None
        if self._asked_at and len(buffer) > self._head_end:
            self.first_bytes.append(time.perf_counter() - self._asked_at)
            self._asked_at = 0.0
        if self._pace:
            self._note_tokens(data)
        if self._whole_at is not None:
            if len(buffer) < self._whole_at:
                return
        elif not buffer.endswith(b"\r\n0\r\n\r\n"):
            return
        if not buffer.startswith(b"HTTP/1.1 200"):
            self._fail(f"no success: {bytes(buffer[:500])!r}")
            return
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if self._renewing is None and not self.over.done():
            self._fail(f"the connection broke: {error}")

    def _note_tokens(self, data: bytes) -> None:
        """An event in two pieces counts with its beginning; `[DONE]` is no token."""
        came = data.count(_TOKEN)
        if not came:
            return
        now = time.perf_counter()
        if not self._tokens:
            self._first_token_at = now
        for number in range(self._tokens, self._tokens + came):
            self.late.append(now - self._first_token_at - number * self._pace)
        self._tokens += came

    def _next(self) -> None:
        self.answered += 1
        self.whole.append(time.perf_counter() - self._begun_at)
        self._begun_at = 0.0
        closes = self._order.fresh or _CLOSES.search(self._buffer, 0, self._head_end)
        if time.monotonic() >= self._stop_at:
            self.over.set_result(None)
            self._transport.close()
        elif closes:
            self._begun_at = time.perf_counter()  # the next one begins with its connection
            self._renewing = asyncio.get_running_loop().create_task(self.connect())
            self._transport.abort()
        else:
            self._ask()

    def _ask(self) -> None:
        self._buffer.clear()
        self._head_end = -1
        self._asked_at = self._begun_at = self._begun_at or time.perf_counter()
        self._transport.write(self._request)

    def _fail(self, what: str) -> None:
        if not self.over.done():
            self.over.set_exception(RuntimeError(what))
        self._transport.abort()


_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_TOKEN = b"data: {"
_CLOSES = re.compile(rb"connection: *close", re.IGNORECASE)


async def _generate(order: Order) -> Outcome:
    started, cpu = time.monotonic(), time.process_time()
    ends = started if order.load.pace_ms else started + order.seconds
    clients = [_Client(order, ends) for _ in range(order.load.clients)]
    try:
        paced = order.load.tokens * order.load.pace_ms / 1000
        async with asyncio.timeout(order.seconds + paced + ANSWER_SECONDS):
            for client in clients:
                await client.connect()
            await asyncio.gather(*[client.over for client in clients])
    except TimeoutError:
        waiting = [client.waits_for for client in clients if not client.over.done()]
        raise RuntimeError(f"{len(waiting)} clients wait for an answer: {waiting[0]}") from None
    seconds = time.monotonic() - started
    first_bytes = [taken for client in clients for taken in client.first_bytes]
    whole = [taken for client in clients for taken in client.whole]
    late = [taken for client in clients for taken in client.late]
    return Outcome(
        sum(client.answered for client in clients),
        seconds,
        statistics.median(first_bytes) * 1000,
        time.process_time() - cpu,
        statistics.median(whole) * 1000,
        max(whole) * 1000,
        statistics.quantiles(late, n=100)[98] * 1000 if len(late) > 1 else None,
    )


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    outcome = uvloop.run(_generate(Order(**asked | {"load": Load(**asked["load"])})))
    print(json.dumps(asdict(outcome)))
