"""What a remote server's answer says of that server, and what of it reaches a client."""

from __future__ import annotations

from proxy.headers import RawHeaders
from scheduler.protocol import Refused

_KEPT_BACK = frozenset(
    {
        # About the connection between it and us, or about its site
        b"alt-svc",
        b"clear-site-data",
        b"content-security-policy",
        b"link",
        b"location",
        b"nel",
        b"refresh",
        b"report-to",
        b"set-cookie2",
        b"strict-transport-security",
        b"via",
        b"www-authenticate",
        # About the account whose key was sent
        b"openai-organization",
        b"openai-project",
    }
)


def refuse_what_is_no_answer(status: int, model: str) -> None:
    """Raises Refused for what speaks to the gateway, not to its client: a redirect, which is never
    followed, and a key that is not taken (whose text may quote the key)."""
    if 300 <= status < 400:
        raise Refused(
            "upstream_failed",
            f"The remote server of '{model}' redirects ({status}), which is not followed: an "
            "administrator has to set the URL that it leads to.",
        )
    if status in (401, 407):
        raise Refused(
            "upstream_failed",
            f"The remote server of '{model}' does not take the key of its preset ({status}): an "
            "administrator has to set another one.",
        )


def works(status: int, headers: RawHeaders) -> bool | None:
    """Whether the server does what it is for; None where the answer does not tell: one that asks
    for a pause has not failed."""
    if status < 500 or status == 501:
        return True
    if status == 503 and any(name == b"retry-after" for name, _ in headers):
        return None
    return False


def for_clients(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """Those of its headers that a client may see; what holds for every child's is left out later
    (proxy/headers.py)."""
    return [header for header in headers if header[0] not in _KEPT_BACK]
