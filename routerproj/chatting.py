"""A conversation with a model through the gateway, over HTTP as any client has it."""

from __future__ import annotations

import http.client
import json
import select
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

PATH = "/v1/chat/completions"
CONNECT_SECONDS = 10.0
LOOK_SECONDS = 0.25
LONGEST_LINE = 16 << 20
_STATUS_OF_NO_ANSWER = 0


class Refusal(Exception):
    """No answer, or none that is whole. `status` is 0 where there was none."""

    def __init__(self, message: str, status: int = _STATUS_OF_NO_ANSWER, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Piece(NamedTuple):
    kind: Literal["text", "thought"]
    text: str


@dataclass
class Figures:
    """Of one answer: seconds until its first token, tokens (None where nobody counted them), and
    tokens a second, as the engine measured them or as they came."""

    first_seconds: float | None = None
    tokens: int | None = None
    per_second: float | None = None

    def told(self) -> str:
        parts = []
        if self.tokens is not None:
            parts.append(f"{self.tokens} tokens")
        if self.per_second is not None:
            parts.append(f"{self.per_second:.1f} tokens/s")
        if self.first_seconds is not None:
            parts.append(f"first after {self.first_seconds:.1f} s")
        return ", ".join(parts)


@dataclass
class Conversation:
    """`say` adds the words of both, of an answer that was stopped what there is of it; a refused
    question is taken back."""

    url: str
    key: str
    model: str
    system: str = ""
    max_tokens: int | None = None
    messages: list[dict[str, str]] = field(default_factory=list)

    def clear(self) -> None:
        self.messages.clear()

    def say(
        self, words: str, figures: Figures, waits: Callable[[float], None] = lambda seconds: None
    ) -> Generator[Piece]:
        """The answer as it comes. `waits` is called with the seconds so far while nothing does.
        Raises Refusal. To leave the iterator, by Ctrl-C too, ends the answer at the gateway."""
        self.messages.append({"role": "user", "content": words})
        answer: list[str] = []
        asked = time.monotonic()
        try:
            with _posted(self.url, self.key, self._body(), waits) as response:
                for piece in _pieces(response, figures, asked):
                    if piece.kind == "text":
                        answer.append(piece.text)
                    yield piece
        except Refusal:
            if not answer:
                self.messages.pop()
            raise
        finally:
            if answer:
                self.messages.append({"role": "assistant", "content": "".join(answer)})

    def _body(self) -> bytes:
        first = [{"role": "system", "content": self.system}] if self.system else []
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [*first, *self.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.max_tokens is not None:
            body["max_tokens"] = self.max_tokens
        return json.dumps(body).encode()


@contextmanager
def _posted(
    url: str, key: str, body: bytes, waits: Callable[[float], None]
) -> Iterator[http.client.HTTPResponse]:
    """Raises Refusal for all but a stream that begins."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    with closing(kind(parts.netloc, timeout=CONNECT_SECONDS)) as connection:
        try:
            connection.connect()
            connection.sock.settimeout(None)  # how long it may wait is the gateway's to say
            connection.request("POST", parts.path.rstrip("/") + PATH, body, headers)
            _wait(connection, waits)
            response = connection.getresponse()
            if response.status != 200:
                raise _refusal(response.status, response.read())
            yield response
        except http.client.HTTPException as error:
            raise Refusal(
                f"what answers at {url} is no gateway, or broke off ({error!r})"
            ) from error
        except OSError as error:
            raise Refusal(
                f"{url} does not answer ({error}): start the gateway with `manage.py serve`, or "
                "say by --url where it is"
            ) from error


def _wait(connection: http.client.HTTPConnection, waits: Callable[[float], None]) -> None:
    began = time.monotonic()
    while not select.select([connection.sock], [], [], LOOK_SECONDS)[0]:
        waits(time.monotonic() - began)


def _pieces(response: http.client.HTTPResponse, figures: Figures, asked: float) -> Iterator[Piece]:
    """Raises Refusal when the stream ends before the answer does."""
    count = 0
    for event in _events(response):
        if "error" in event:
            raise _refusal(_STATUS_OF_NO_ANSWER, json.dumps(event).encode())
        for piece in _of(event):
            if figures.first_seconds is None:
                figures.first_seconds = time.monotonic() - asked
            count += 1
            yield piece
        _count(event, figures)
    took = time.monotonic() - asked - (figures.first_seconds or 0.0)
    if figures.per_second is None and figures.tokens and count > 1 and took > 0:
        figures.per_second = (figures.tokens - 1) / took


def _of(event: dict[str, Any]) -> Iterator[Piece]:
    for choice in event.get("choices") or []:
        delta = choice.get("delta") or {}
        if thought := delta.get("reasoning_content"):
            yield Piece("thought", thought)
        if text := delta.get("content"):
            yield Piece("text", text)


def _count(event: dict[str, Any], figures: Figures) -> None:
    """llama-server measures itself, others only count."""
    usage, timings = event.get("usage") or {}, event.get("timings") or {}
    figures.tokens = usage.get("completion_tokens", figures.tokens)
    figures.per_second = timings.get("predicted_per_second", figures.per_second)


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    while line := response.readline(LONGEST_LINE):
        name, _, value = line.strip().partition(b":")
        if name != b"data":
            continue
        if value.strip() == b"[DONE]":
            return
        try:
            event = json.loads(value)
        except ValueError as error:
            raise Refusal("an event of the stream is no JSON") from error
        if isinstance(event, dict):
            yield event
    raise Refusal("the answer was cut off before its end")


def _refusal(status: int, body: bytes) -> Refusal:
    try:
        error = json.loads(body)["error"]
        return Refusal(str(error["message"]), status, str(error.get("code") or ""))
    except (ValueError, KeyError, TypeError):
        return Refusal(f"it answered {status}, and nothing that a gateway says", status)
