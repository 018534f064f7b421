"""One HTTP request of a download: to checked addresses only, redirects followed and checked.

The connection can be ended from another thread, which is how a pause is noticed at once.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import socket
import ssl
import string
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from urllib.parse import quote, urljoin, urlsplit

from models_registry.downloads.addresses import Origin, Rules, origin_of
from models_registry.downloads.planned import Refused

READ_TIMEOUT_SECONDS = 30.0
MOST_REDIRECTS = 8
LONGEST_ANSWER = 8 << 20
"""Bytes of an answer that is kept in memory: a manifest, a list."""

LONGEST_WORDS = 200
"""Characters of what a server says that are told to people."""

_REDIRECTS = (301, 302, 303, 307, 308)


class Trouble(Exception):
    """It did not work this time; it may the next. `retry_after_seconds` is what the server asked
    for, where it did."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class NothingLeft(Trouble):
    """The server has no bytes where the unfinished file ends: that file is of another state."""


class Ended(Exception):
    """Somebody ended it from outside: it is no fault of the other side."""


@dataclass(slots=True)
class Line:
    """The connection of one download at a time, and its end from another thread."""

    ended: threading.Event = field(default_factory=threading.Event)
    _socket: socket.socket | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def hold(self, connected: socket.socket | None) -> None:
        with self._lock:
            self._socket = connected
        if self.ended.is_set():
            self.end()

    def end(self) -> None:
        """Whoever reads from it gets nothing more."""
        self.ended.set()
        with self._lock:
            if self._socket is not None:
                with contextlib.suppress(OSError):  # it is closed already
                    # A TLS socket's own would take its state away under the reader.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def wait(self, seconds: float) -> None:
        """Raises Ended as soon as it is ended."""
        if self.ended.wait(seconds):
            raise Ended

    def check(self) -> None:
        """Raises Ended."""
        if self.ended.is_set():
            raise Ended


class _Connection(http.client.HTTPConnection):
    """To an address that was checked, not to whatever the name means a moment later."""

    def __init__(self, origin: Origin, addresses: list[str], line: Line) -> None:
        super().__init__(origin.host, origin.port, timeout=READ_TIMEOUT_SECONDS)
        self._origin = origin
        self._addresses = addresses
        self._line = line

    def connect(self) -> None:
        self.sock = self._plain()
        self._line.hold(self.sock)
        if self._origin.scheme == "https":
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self.sock, server_hostname=self._origin.host)
            self._line.hold(self.sock)

    def _plain(self) -> socket.socket:
        problem: OSError | None = None
        for address in self._addresses:
            self._line.check()
            try:
                return socket.create_connection(
                    (address, self._origin.port), timeout=READ_TIMEOUT_SECONDS
                )
            except OSError as error:
                problem = error
        raise problem or OSError("it has no address")

    def close(self) -> None:
        self._line.hold(None)
        super().close()


@dataclass(frozen=True, slots=True)
class Answer:
    """200 or 206, its body still to be read. Close it."""

    status: int
    headers: Message
    _response: http.client.HTTPResponse
    _connection: _Connection
    _line: Line

    def read(self, size: int) -> bytes:
        """What has come, at most `size` bytes; empty at the end. Raises Trouble or Ended."""
        try:
            found = self._response.read1(size)
        except (OSError, http.client.HTTPException) as error:
            self._line.check()
            raise Trouble(f"the answer broke off: {_told(error)}") from error
        if not found:
            self._line.check()
        return found

    def whole(self) -> bytes:
        """A short body. Raises Refused when it is long, Trouble or Ended."""
        body = b""
        while part := self.read(LONGEST_ANSWER):
            body += part
            if len(body) > LONGEST_ANSWER:
                raise Refused(f"it sends over {LONGEST_ANSWER} bytes where few belong")
        return body

    def close(self) -> None:
        self._connection.close()


def ask(
    url: str,
    rules: Rules,
    line: Line,
    headers: Mapping[str, str],
    *,
    redirected: Rules | None = None,
    secret: Mapping[str, str] | None = None,
) -> Answer:
    """A GET, redirects followed under the rules `redirected` (the same when None). The `secret`
    headers go to the first origin only.

    Raises Refused, Trouble, or Ended when `line` was ended.
    """
    first = origin_of(url)
    for _ in range(MOST_REDIRECTS + 1):
        line.check()
        origin = origin_of(url)
        allowed = rules if origin == first or redirected is None else redirected
        sent = {**headers, **(secret or {})} if origin == first else dict(headers)
        connection, response = _asked(url, origin, allowed, line, sent)
        try:
            if response.status not in _REDIRECTS:
                _judge(url, response)
                return Answer(response.status, response.headers, response, connection, line)
            url = _next(url, response)
        except BaseException:
            connection.close()
            raise
        connection.close()
    raise Refused(f"{first.host} redirects more than {MOST_REDIRECTS} times")


def _asked(
    url: str, origin: Origin, rules: Rules, line: Line, headers: Mapping[str, str]
) -> tuple[_Connection, http.client.HTTPResponse]:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    sent = {"Accept-Encoding": "identity", "User-Agent": "corral", **headers}
    connection: _Connection | None = None
    try:
        connection = _Connection(origin, rules.addresses(origin), line)
        connection.request("GET", target, headers=sent)
        return connection, connection.getresponse()
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, OSError | http.client.HTTPException):
            line.check()
            raise Trouble(f"{origin.host}: {_told(error)}") from error
        raise


def _next(url: str, response: http.client.HTTPResponse) -> str:
    location = response.headers.get("Location", "")
    if not location:
        raise Refused(f"{origin_of(url).host} redirects without saying where to")
    # Blanks and raw bytes stand in many a server's Location; the request line takes none.
    try:
        return urljoin(url, quote(location, safe=string.punctuation, encoding="latin-1"))
    except ValueError as error:
        raise Refused(f"{origin_of(url).host} redirects to what is no URL: {error}") from None


def _judge(url: str, response: http.client.HTTPResponse) -> None:
    """Raises Refused for what the next try would not cure, Trouble for what it may."""
    status = response.status
    if status in (200, 206):
        return
    host = origin_of(url).host
    if status == 429 or status >= 500 or status == 408:
        wait = retry_after_seconds(response.headers.get("Retry-After", ""))
        raise Trouble(f"{host} answers {status} {_words(response.reason)}", wait)
    if status == 416:
        raise NothingLeft(f"{host} has no more bytes where the unfinished file ends")
    if status in (401, 403):
        raise Refused(
            f"{host} answers {status} {_words(response.reason)}: a token is needed that may read "
            "it (HF_TOKEN, or the download's own), and a gated model wants its licence accepted "
            "there"
        )
    if status == 404:
        raise Refused(f"{host} answers 404: there is no {urlsplit(url).path}")
    raise Refused(f"{host} answers {status} {_words(response.reason)}")


def retry_after_seconds(value: str) -> float | None:
    """A number of seconds or a date; None for anything else."""
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        when = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return max(0.0, when.timestamp() - time.time())


def _told(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing came for {READ_TIMEOUT_SECONDS:g} s"
    return _words(str(error)) or type(error).__name__


def _words(text: str) -> str:
    """Another machine's, as a sentence may hold them."""
    shown = "".join(character if character.isprintable() else " " for character in text).strip()
    return shown if len(shown) <= LONGEST_WORDS else shown[:LONGEST_WORDS] + "…"
