"""What a request must look like before anything of ours, or of Django's, sees it. Pure.

An ASGI server passes on much that only an attacker sends: two Host headers, `..` in a path, a
header that rewrites the path. Whoever decides by one of two readings can be fooled by the other, so
what can be read in two ways is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any
from urllib.parse import urlsplit

from proxy.tokens import hex_name
from scheduler.protocol import Refused

ONCE = frozenset(
    {b"host", b"content-length", b"authorization", b"transfer-encoding", b"x-request-id"}
)
MODEL_IN_PATH = ("/v1/models/", "/models/", "/router/api/presets/", "/router/api/aliases/")
"""Below these an encoded slash is part of a model's name, as client libraries write it."""

LONGEST_USUAL = 64
MOST_USUAL = 512
_usual: dict[str, bytes] = {}
"""Short paths that have passed, with how they were written: almost all requests go to few."""

LOCALHOST = r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?"
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(rb"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ENCODED_SLASH = re.compile(rb"%(?:2f|5c)", re.IGNORECASE)
_ENCODED_AGAIN = re.compile(r"%(?:2e|2f|5c|25|00)", re.IGNORECASE)


def first_value(scope: Any, name: bytes) -> bytes:
    """Empty when the header is missing."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return b""


def request_id_of(scope: Any) -> str:
    """The client's own, when it is one sane word; otherwise a new one."""
    given = first_value(scope, b"x-request-id")
    return given.decode() if _REQUEST_ID.fullmatch(given) else f"req-{hex_name(12)}"


def check_headers(scope: Any) -> int | None:
    """The declared length of the body, None without one. Raises Refused for what smuggles or what
    could be read in two ways."""
    single: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in ONCE:
            if name in single:
                raise _bad(f"the header {name.decode()} was sent more than once")
            single[name] = value
        elif name == b"daphne-root-path":
            raise _bad("the header Daphne-Root-Path is not taken from clients")
    if b"transfer-encoding" in single:
        if b"content-length" in single:
            raise _bad("Content-Length and Transfer-Encoding exclude each other")
        if single[b"transfer-encoding"].strip().lower() != b"chunked":
            raise _bad("the only Transfer-Encoding understood is chunked")
    _check_host(scope, single.get(b"host"))
    return _length(single.get(b"content-length", b""))


def _check_host(scope: Any, host: bytes | None) -> None:
    if host is None:
        if scope.get("http_version", "1.1") != "1.0":
            raise _bad("the Host header is missing")
    elif not _HOST.fullmatch(host):
        raise _bad("the Host header is not a host name with an optional port")


def check_path(scope: Any) -> None:
    """Raises Refused for a path that another reader could take for another path."""
    path: str = scope["path"]
    raw: bytes = scope.get("raw_path") or path.encode()
    if _usual.get(path) == raw and not scope.get("root_path"):
        return
    if not raw.startswith(b"/") or not path.startswith("/"):
        raise _bad("the request target must be a path that begins with a slash")
    if scope.get("root_path"):
        # Daphne has taken it out of a header by now.
        raise _bad("the header Daphne-Root-Path is not taken from clients")
    if "\\" in path or _CONTROL.search(path):
        raise _bad("the path holds a backslash or a control character")
    segments = path.split("/")
    if "." in segments or ".." in segments:
        raise _bad("the path holds a . or .. segment")
    if "//" in path:
        raise _bad("the path holds two slashes in a row: check the end of the client's base URL")
    if _ENCODED_SLASH.search(raw) and not path.startswith(MODEL_IN_PATH):
        raise _bad("the path holds an encoded slash")
    if _ENCODED_AGAIN.search(path):
        raise _bad("the path was encoded twice")
    if len(path) <= LONGEST_USUAL and len(_usual) < MOST_USUAL:
        _usual[path] = raw


def _length(given: bytes) -> int | None:
    if not given:
        return None
    if not given.isdigit() or len(given) > 18:
        raise _bad("the Content-Length is not a number")
    return int(given)


def check_origin(scope: Any, allowed_hosts: Collection[str], origins: Iterable[str]) -> None:
    """For a gateway without keys: any page in a browser on this machine can reach it.

    A page from elsewhere gives itself away by its Origin, and one that had its own name resolved to
    this machine (DNS rebinding) by the Host. Raises Refused for both.
    """
    host = host_name(first_value(scope, b"host").decode("latin-1"))
    if not host_allowed(host, allowed_hosts):
        raise Refused(
            "host_not_allowed",
            f"the host {host!r} is not served without an API key: use an address in"
            " CORRAL_ALLOWED_HOSTS, or add this one to it",
        )
    origin = first_value(scope, b"origin").decode("latin-1")
    if not origin or origin in origins or "*" in origins:
        return
    if not host_allowed(_host_of(origin), allowed_hosts):
        raise Refused(
            "host_not_allowed",
            f"pages of {origin!r} are not served: add it with --cors-origins if they should be",
        )


def check_socket_origin(scope: Any, origins: Collection[str]) -> None:
    """A browser lets any page open a WebSocket, and says whose it is: only our own pages may, and
    those of `origins`. Raises Refused."""
    origin = first_value(scope, b"origin").decode("latin-1")
    if not origin or is_own_origin(scope) or "*" in origins or origin in origins:
        return
    if "localhost" in origins and re.fullmatch(LOCALHOST, origin):
        return
    raise Refused(
        "host_not_allowed",
        f"pages of {origin!r} may not open WebSockets here: add it with --cors-origins if they"
        " should",
    )


def is_own_origin(scope: Any) -> bool:
    """Whether it comes from a page of the very host and port that it was sent to."""
    try:
        origin = urlsplit(first_value(scope, b"origin").decode("latin-1"))
        port = origin.port or _PORTS[origin.scheme]
        host = urlsplit(f"{origin.scheme}://{first_value(scope, b'host').decode('latin-1')}")
        return origin.hostname == host.hostname and port == (host.port or _PORTS[host.scheme])
    except (ValueError, KeyError):
        return False


def _host_of(origin: str) -> str:
    """Empty when it has none, or is no origin at all."""
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""


def check_host(scope: Any, allowed_hosts: Collection[str]) -> None:
    """For what Django answers: it refuses other hosts itself, but with a page of its own and a
    traceback in the log. Raises Refused."""
    host = host_name(first_value(scope, b"host").decode("latin-1"))
    if not host_allowed(host, allowed_hosts):
        raise Refused(
            "host_not_allowed",
            f"the host {host!r} is not served here: use an address in CORRAL_ALLOWED_HOSTS, or add"
            " this one to it",
        )


def wants_a_page(scope: Any) -> bool:
    """A browser that shows its answer to a person, who can make nothing of JSON."""
    is_page = not scope["path"].startswith("/router/api/")
    return is_page and b"text/html" in first_value(scope, b"accept")


def host_name(host: str) -> str:
    """Without the port, IPv6 without its brackets, in lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def host_allowed(host: str, allowed: Collection[str]) -> bool:
    """As Django reads ALLOWED_HOSTS: exact, `.example.com` with what is below it, or `*`."""
    for pattern in allowed:
        wanted = host_name(pattern)
        if pattern == "*" or (host and host == wanted):
            return True
        if wanted.startswith(".") and (host == wanted[1:] or host.endswith(wanted)):
            return True
    return False


def _bad(message: str) -> Refused:
    return Refused("invalid_request", message)
