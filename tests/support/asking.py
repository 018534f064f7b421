"""A client that sees what the wire holds: answers, streams, and how they end."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "Say something."}]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error's code; empty for an answer that is no error."""
        error = self.json.get("error") or {}
        return error.get("code", "") if isinstance(error, dict) else ""

    @property
    def message(self) -> str:
        return str(self.json["error"]["message"])


@dataclass
class Ending:
    """A stream read to its end. `cut` is a connection that broke off in the middle."""

    status: int
    events: list[Any] = field(default_factory=list)
    done: bool = False
    cut: bool = False

    @property
    def errors(self) -> list[Any]:
        return [event["error"] for event in self.events if "error" in event]

    @property
    def finished(self) -> bool:
        """A whole answer: its last words, a finish reason, and [DONE]."""
        reasons = [
            choice.get("finish_reason") for event in self.events for choice in _choices(event)
        ]
        return self.done and not self.errors and any(reasons)

    @property
    def explicit_error(self) -> bool:
        """The client cannot take it for a whole answer."""
        return not self.done and (self.cut or bool(self.errors) or self.status >= 400)


class Stream:
    """An answer that arrives as server-sent events. Leaving the `with` block leaves the answer."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self._response = response
        self._seen = Ending(response.status)
        self._received = b""

    def next_event(self) -> Any:
        """The next event's JSON; None after [DONE] or at the end."""
        for line in self._lines():
            if line == b"data: [DONE]":
                self._seen.done = True
            elif line.startswith(b"data: "):
                event = json.loads(line[6:])
                self._seen.events.append(event)
                return event
        return None

    def to_end(self) -> Ending:
        """Everything, what was read before included."""
        if self.status != 200:
            self._seen.events.append(json.loads(self._response.read()))
            return self._seen
        while self.next_event() is not None:
            pass
        return self._seen

    def _lines(self) -> Iterator[bytes]:
        """Not by readline(): that takes a broken connection for the end of the answer."""
        while True:
            line, newline, rest = self._received.partition(b"\n")
            if newline:
                self._received = rest
                yield line.rstrip(b"\r")
                continue
            try:
                data = self._response.read1(1 << 16)
            except (http.client.IncompleteRead, ConnectionError):
                self._seen.cut = True
                return
            if not data:
                return
            self._received += data


class Client:
    """Asks a gateway over TCP, one connection a request."""

    def __init__(self, port: int, key: str) -> None:
        self.port = port
        self.key = key

    def request(
        self,
        method: str,
        path: str,
        body: bytes | dict[str, Any] | None = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 120,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            _send(connection, method, path, body, self.key if key is None else key, headers)
            response = connection.getresponse()
            headers_seen = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, headers_seen, response.read())
        finally:
            connection.close()

    def chat(self, model: str, **fields: Any) -> Answer:
        return self.request("POST", CHAT, chat_body(model, **fields))

    @contextmanager
    def stream(self, model: str, path: str = CHAT, **fields: Any) -> Iterator[Stream]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            _send(connection, "POST", path, chat_body(model, stream=True, **fields), self.key, None)
            response = connection.getresponse()
            with response:
                yield Stream(response)
        finally:
            connection.close()


def chat_body(model: str, **fields: Any) -> dict[str, Any]:
    """`max_tokens` is few unless said otherwise. Random weights may end an answer at any token:
    ignore_eos makes it as long as it was asked for."""
    return {"model": model, "messages": MESSAGES, "max_tokens": 4, "ignore_eos": True} | fields


def whole(answer: Answer) -> bool:
    """A plain chat answer that is complete: finish reason and usage."""
    if answer.status != 200:
        return False
    reasons = [choice.get("finish_reason") for choice in _choices(answer.json)]
    return all(reasons) and answer.json["usage"]["completion_tokens"] > 0


def _choices(event: Any) -> list[Any]:
    return event.get("choices") or []


def _send(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | dict[str, Any] | None,
    key: str,
    headers: Mapping[str, str] | None,
) -> None:
    sent = {"Content-Type": "application/json"} if body is not None else {}
    if key:
        sent["Authorization"] = f"Bearer {key}"
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    connection.request(method, path, data, sent | dict(headers or {}))
