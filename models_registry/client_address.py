"""Where a request came from, when proxies of ours stand before us."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

Network = IPv4Network | IPv6Network


def parse_proxies(text: str) -> tuple[Network, ...]:
    """Raises ValueError."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    try:
        return tuple(ip_network(word) for word in words)
    except ValueError as error:
        raise ValueError(f"{error}: write addresses or networks, as 10.0.0.2, fd00::/8") from None


def client_address(request: HttpRequest) -> str | None:
    """Where a request came from: the last address on its way that is no proxy of ours. None for
    what came by no network, or from a proxy that says nothing that is an address."""
    forwarded = request.headers.get("X-Forwarded-For", "")
    return address_behind(request.META.get("REMOTE_ADDR") or "", forwarded)


def address_behind(peer: str, forwarded: str) -> str | None:
    """The same of who is connected, and what X-Forwarded-For says."""
    way = [peer, *reversed(forwarded.split(","))]
    proxies = settings.CORRAL_TRUSTED_PROXIES
    for said in way:
        address = plain_address(said.strip())
        if address is None:
            return None
        if not any(address in network for network in proxies):
            return str(address)
    return None


def plain_address(text: str) -> IPv4Address | IPv6Address | None:
    """An IPv4 address written as an IPv6 one is what it stands for; None for what is no address."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
