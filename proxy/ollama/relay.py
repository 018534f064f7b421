"""An answer on its way from a child to a client of Ollama's: events become lines, as they come."""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from proxy.answers import send_json
from proxy.conf import ProxyConfig
from proxy.dialects.child_errors import as_told
from proxy.headers import to_client
from proxy.ollama.telling import Object, Took, error_in, line
from proxy.relay import AnswerCut, Reader, Relay
from proxy.scopes import Scope
from proxy.upstream import Coming
from proxy.usage.meter import Meter
from proxy.watch import Cause, Watch
from scheduler.protocol import Rate, Refused

LONGEST_ERROR = 1 << 20
NDJSON = b"application/x-ndjson"
_ERRORS = {501: 400}
"""What a model cannot do is the client's mistake for Ollama."""


class Told(Protocol):
    """How an answer is told: telling.Telling, vectors.Vectors."""

    streams: bool
    failed: str

    def heard(self, part: bytes, *, is_stream: bool) -> bytes: ...
    def end(self, took: Took) -> list[Object]: ...


class OllamaRelay(Relay):
    """`tells` comes before `copy`."""

    def __init__(self, reader: Reader, config: ProxyConfig, watch: Watch, meter: Meter) -> None:
        super().__init__(reader, config, watch, meter)
        self.ignored = b""
        """What was asked for and does not count, for the header that tells it."""
        self._lacking = b""
        self._told: Told | None = None
        self._arrived = self._granted_at = self._first_at = watch.loop.time()
        self._status = 200
        self._retry_after = b""
        self._whole = b""  # of an error

    def lacks_load(self, asked: bytes) -> None:
        """It does not count either, for want of that scope, which is told as well."""
        self.ignored = b", ".join(filter(None, (self.ignored, asked)))
        self._lacking = Scope.LOAD.encode()

    def tells(self, told: Told, arrived: float) -> None:
        self._told, self._arrived = told, arrived

    def granted(self, config: ProxyConfig, rate: Rate | None = None) -> None:
        super().granted(config, rate)
        self._granted_at = self._watch.loop.time()

    async def copy(self, answer: Coming) -> None:
        told, answer = self._told, as_told(answer, self._reader.dialect)
        assert told is not None
        self._first_at = self._watch.loop.time()
        self._status = answer.status
        self._meter.answers(answer)
        self._retry_after = dict(answer.headers).get(b"retry-after", b"")
        if answer.is_encoded:
            raise Refused("upstream_failed", "The model's answer is compressed: nobody reads it.")
        with self._watch as watch:
            part = answer.first
            whole: list[bytes] = []
            while part:
                self.passed += len(part)
                self.tail.push(part)
                if self._status != 200:
                    self._whole = (self._whole + part)[:LONGEST_ERROR]
                elif answer.is_stream:
                    await self._tell(told.heard(part, is_stream=True), last=answer.ended)
                else:
                    whole.append(part)
                if answer.ended:
                    break
                watch.limit(self.config.between_tokens_timeout_seconds, Cause.BETWEEN_TOKENS)
                part = await answer.more()
            if whole:
                await self._tell(told.heard(b"".join(whole), is_stream=False), last=True)

    async def finish(self) -> None:
        """The answer is whole, or what there is of it is an error."""
        with self._watch as watch:
            watch.limit(self.config.slow_reader_timeout_seconds, Cause.SLOW_READER)
            if self._status != 200:
                await self._send_error(self._status, _words(self._whole, self._status))
                return
            told = self._told
            assert told is not None
            if told.failed:
                await self._send_error(500, told.failed)
                return
            objects = told.end(self._took())
            if told.streams:
                await self._begin()
                last = self._last + b"".join(map(line, objects))
                await self._reader.send({"type": "http.response.body", "body": last})
                return
            await self.say(objects[-1])

    async def say(self, told: Object) -> None:
        """One object, and that is all."""
        headers = [*self._own_headers(), (b"cache-control", b"no-store")]
        request_id = self._reader.request_id.encode()
        self._started = True
        await send_json(self._reader.send, 200, told, request_id, headers)

    async def fail(self, refused: Refused, model: str) -> None:
        if not self._started:
            await super().fail(refused, model)
            return
        body = line(self._reader.dialect(refused, model).body)
        try:
            async with asyncio.timeout(self.config.slow_reader_timeout_seconds):
                await self._reader.send({"type": "http.response.body", "body": body})
                return
        except TimeoutError:
            pass  # it does not read the error, either
        raise AnswerCut(f"request {self._reader.request_id}: {refused.message}") from None

    async def _tell(self, lines: bytes, *, last: bool) -> None:
        """What comes last waits for `finish`, as the lease ends before."""
        if last:
            self._last = lines
        elif lines:
            await self._begin()
            await self._send(lines)

    async def _begin(self) -> None:
        if self._started:
            return
        headers = to_client(
            [(b"content-type", NDJSON), (b"cache-control", b"no-store"), *self._own_headers()],
            self._reader.request_id.encode(),
            stream=True,
            filtered=self.filtered,
        )
        self._watch.limit(self.config.slow_reader_timeout_seconds, Cause.SLOW_READER)
        self._started = True
        await self._reader.send({"type": "http.response.start", "status": 200, "headers": headers})

    def _own_headers(self) -> list[tuple[bytes, bytes]]:
        told = (
            (b"x-corral-ignored-options", self.ignored),
            (b"x-corral-lacks-scope", self._lacking),
            (b"x-corral-filters", self.filtered),
        )
        said = [(name, value) for name, value in told if value]
        return [*said, *self._said_of_content(), *self._rate]

    async def _send_error(self, status: int, words: str) -> None:
        if self._started:
            last = self._last + line({"error": words})
            await self._reader.send({"type": "http.response.body", "body": last})
            return
        headers = self._own_headers()
        if self._retry_after:
            headers.append((b"retry-after", self._retry_after))
        self._started = True
        status, request_id = _ERRORS.get(status, status), self._reader.request_id.encode()
        await send_json(self._reader.send, status, {"error": words}, request_id, headers)

    def _took(self) -> Took:
        now = self._watch.loop.time()
        return Took(
            now - self._arrived,
            max(0.0, self._granted_at - self._arrived),
            max(0.0, self._first_at - self._granted_at),
        )


def _words(body: bytes, status: int) -> str:
    """What a child says of its error."""
    try:
        told = error_in(msgspec.json.decode(body, type=dict))
    except (msgspec.MsgspecError, RecursionError):
        told = None
    return told or f"The model's engine answered with status {status}."
