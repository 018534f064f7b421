"""Where a preset's URL leads to, and where it may not: to addresses where clouds keep secrets."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from models_registry.downloads.addresses import innermost

_METADATA = frozenset(
    ipaddress.ip_address(address)
    for address in (
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
    )
)
"""Of clouds that keep their machines' secrets at an address that is not link-local."""


_LIKE_IPV4 = re.compile(r"(?:(?:0x[0-9a-f]*|[0-9]+)\.)*(?:0x[0-9a-f]*|[0-9]+)\.?", re.IGNORECASE)

_OF_OPENAI = frozenset({"/chat/completions", "/responses"})
"""Without a prefix they are the same to llama.cpp, but not to others."""


def why_not(text: str) -> str:
    """Why an administrator's URL may not lead to this address; empty when it may, and for what is
    no address. Private ones may: that is how a server in the same network is reached."""
    try:
        address = innermost(ipaddress.ip_address(text.partition("%")[0].strip("[]")))
    except ValueError:
        return ""
    if address in _METADATA or address.is_link_local:
        return "is where clouds keep the secrets of their machines: no upstream may be there"
    if address.is_unspecified or address.is_multicast:
        return "is no address of a server"
    return ""


def is_shortened(host: str) -> bool:
    """Whether it is an IPv4 address in one of its other spellings (127.1, 0x7f000001), which only
    some programs read."""
    return _LIKE_IPV4.fullmatch(host) is not None and not _is_address(host)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def address_at(base: str, path: str) -> str:
    """Where a path of ours is below `base`, which may be written with /v1 (as clients of OpenAI
    have it) or without. What has no version is at the server's root, as llama.cpp has it."""
    base = base.rstrip("/")
    if path in _OF_OPENAI:
        path = f"/v1{path}"
    if path.startswith("/v1/"):
        rooted = base.endswith("/v1") or base.count("/") > 2  # a path of its own stands for /v1
        return base + (path.removeprefix("/v1") if rooted else path)
    return base.removesuffix("/v1") + path


def check_proxy(url: str) -> None:
    """Raises ValueError for what is no URL of an HTTP proxy."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or parts.port == 0:
        raise ValueError("write an HTTP proxy as http://host:port, with user:password@ if need be")
