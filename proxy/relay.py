"""One answer on its way from a child to a client, and how it ends when it cannot end well."""

from __future__ import annotations

import asyncio

import msgspec

from proxy.answers import Send, send_refusal
from proxy.conf import ProxyConfig
from proxy.dialects import Dialect
from proxy.dialects.child_errors import as_told
from proxy.headers import to_client
from proxy.limits.headers import rate_headers
from proxy.sse import WholeFrames
from proxy.upstream import Coming
from proxy.usage.asked_usage import WithoutUsage
from proxy.usage.counting import Counted
from proxy.usage.last_words import LastWords
from proxy.usage.meter import Meter
from proxy.watch import Cause, Watch
from scheduler.protocol import Rate, Refused

CONTENT_STORED = (b"x-corral-content-stored", b"true")
"""Of teams that store prompts and answers."""


class AnswerCut(Exception):
    """Raised to the server, so that it closes the connection without a clean end."""


class Reader(msgspec.Struct, frozen=True):
    """The client's side of a request."""

    send: Send
    request_id: str
    dialect: Dialect


class Relay:
    """Begins with the first byte of the child's answer; until then nothing has been sent."""

    def __init__(self, reader: Reader, config: ProxyConfig, watch: Watch, meter: Meter) -> None:
        self.tail = meter.tail()
        self.passed = 0
        """Bytes of the answer that have come from the child."""
        self.filtered = b""
        """What was done to the request's body, for its client."""
        self.hides_usage = False
        """The gateway has asked for the usage of this stream, not its client."""
        self.config = config
        """With the limits of the preset that answers, once there is one."""
        self._reader = reader
        self._watch = watch
        self._meter = meter
        self._last_words = LastWords(meter.asking.path)
        self._rate: list[tuple[bytes, bytes]] = []
        self._started = False
        self._frames: WholeFrames | None = None
        self._hiding: WithoutUsage | None = None
        self._last = b""

    def granted(self, config: ProxyConfig, rate: Rate | None = None) -> None:
        """There is a lease: these are the limits from now on, and `rate` what is left of the
        caller's."""
        self.config = config
        self._rate = rate_headers(rate, self._reader.dialect)

    async def copy(self, answer: Coming) -> None:
        """Pass everything on as it comes, waiting for the reader after each part; the last part
        stays for `finish`.

        Raises UpstreamFailed or Interrupted; `finish` or `fail` must follow.
        """
        answer = as_told(answer, self._reader.dialect)
        if answer.is_stream and not answer.is_encoded and self._frames is None:
            self._frames = WholeFrames()
            self._hiding = WithoutUsage() if self.hides_usage else None
        with self._watch as watch:
            if not self._started:
                self._meter.answers(answer)
                await self._start(answer)
            elif self._last:  # of another answer, which this one goes on with
                await self._send(self._last)
                self._last = b""
            part = answer.first
            while part:
                self.passed += len(part)
                self.tail.push(part)
                if self._frames is not None:
                    part = self._frames.push(part)
                    if self._hiding is not None:
                        part = self._hiding.push(part)
                if answer.ended:
                    self._last = part
                    return
                if part:
                    if self._last_words.are_in(part):
                        self.count(answer)
                    await self._send(part)
                watch.limit(self.config.between_tokens_timeout_seconds, Cause.BETWEEN_TOKENS)
                part = await answer.more()

    def count(self, answer: Coming, *, whole: bool = True) -> Counted:
        """What has passed of it, by the meter; a whole answer is recorded by that."""
        counted = self._meter.count(answer, self.tail, self.passed, whole=whole)
        if whole:
            self._meter.answered(counted)
        return counted

    async def finish(self) -> None:
        """The answer is whole."""
        rest = self._last + (self._frames.rest() if self._frames is not None else b"")
        with self._watch as watch:
            watch.limit(self.config.slow_reader_timeout_seconds, Cause.SLOW_READER)
            await self._reader.send({"type": "http.response.body", "body": rest})

    async def fail(self, refused: Refused, model: str) -> None:
        """The answer cannot be whole: say so in the way that is still open.

        Raises AnswerCut when nothing can be said any more.
        """
        reader = self._reader
        try:
            async with asyncio.timeout(self.config.slow_reader_timeout_seconds):
                if not self._started:
                    request_id = reader.request_id.encode()
                    await send_refusal(
                        reader.send, refused, reader.dialect, model, request_id, self._rate
                    )
                    return
                if self._frames is not None:
                    told = reader.dialect(refused, model)
                    last = self._frames.error(msgspec.json.encode(told.body), told.event)
                    await reader.send({"type": "http.response.body", "body": last})
                    return
        except TimeoutError:
            pass  # it does not read the error, either
        raise AnswerCut(f"request {reader.request_id}: {refused.message}") from None

    def cut(self, why: str) -> None:
        """For a client that does not take what is sent: raises AnswerCut if one has begun."""
        if self._started:
            raise AnswerCut(f"request {self._reader.request_id}: {why}") from None

    async def _start(self, answer: Coming) -> None:
        headers = to_client(
            answer.headers,
            self._reader.request_id.encode(),
            stream=answer.is_stream,
            filtered=self.filtered,
            rate=self._rate,
        )
        headers += self._said_of_content()
        if self._meter.asking.caller.told_times:
            headers.append(self._meter.times())
        self._watch.limit(self.config.slow_reader_timeout_seconds, Cause.SLOW_READER)
        self._started = True
        await self._reader.send(
            {"type": "http.response.start", "status": answer.status, "headers": headers}
        )

    def _said_of_content(self) -> list[tuple[bytes, bytes]]:
        return [CONTENT_STORED] if self._meter.keeps_content else []

    async def _send(self, part: bytes) -> None:
        self._watch.limit(self.config.slow_reader_timeout_seconds, Cause.SLOW_READER)
        await self._reader.send({"type": "http.response.body", "body": part, "more_body": True})
