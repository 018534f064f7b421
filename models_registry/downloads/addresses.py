"""Where downloads may connect to: hosts that are allowed, and addresses that are public.

A name is resolved once, all its addresses are checked, and the connection goes to a checked one: a
name server that answers differently the second time is never asked a second time.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from models_registry.downloads.planned import Refused

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in ("192.0.0.0/24", "64:ff9b:1::/48", "::ffff:0:0:0/96", "fec0::/10")
)
"""What the library holds for public, or does in some of its versions: addresses of protocols (a
cloud keeps its machines' secrets at 192.0.0.192), NAT64 and translation inside of one network, and
site-local ones."""

_HOST = re.compile(r"\*|(\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_PORTS = {"http": 80, "https": 443}

DEFAULT_HOSTS = (
    "huggingface.co",
    "*.huggingface.co",
    "*.hf.co",
    "github.com",
    "*.githubusercontent.com",
)
"""Where models are published, and where those sites keep the bytes."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port of a URL."""

    scheme: str
    host: str
    port: int


def origin_of(url: str) -> Origin:
    """Raises Refused for what is no http or https URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Refused(f"{url.partition('?')[0]!r} is no URL: {error}") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        shown = url.partition("?")[0]  # behind it may stand a secret
        scheme = parts.scheme or "no scheme"
        raise Refused(f"{scheme} in {shown!r}: only http and https are fetched")
    if parts.username or parts.password:
        raise Refused("a URL with a name or a password in it is not fetched")
    return Origin(parts.scheme, parts.hostname.lower(), port or _PORTS[parts.scheme])


@dataclass(frozen=True, slots=True)
class Rules:
    """Which addresses a download may connect to.

    `trusted` are origins that somebody who runs the gateway named with their scheme: whatever
    address they have, with http too. `hosts` are names, `*.example.com` for all below, `*` for
    any; they are reached by https on port 443, at public addresses.
    """

    trusted: frozenset[Origin]
    hosts: tuple[str, ...]

    def check(self, origin: Origin) -> None:
        """Raises Refused."""
        if origin in self.trusted:
            return
        if not any(_matches(origin.host, host) for host in self.hosts):
            raise Refused(
                f"{origin.host} is not among the hosts that downloads may use: "
                "CORRAL_DOWNLOAD_HOSTS lists them"
            )
        if origin.scheme != "https" or origin.port != 443:
            raise Refused(
                f"{origin.host} would be reached by {origin.scheme} on port {origin.port}: only "
                "https on port 443 is, unless CORRAL_DOWNLOAD_HOSTS names the host with its scheme"
            )

    def addresses(self, origin: Origin) -> list[str]:
        """The checked addresses to connect to. Raises Refused, or OSError when it has none."""
        self.check(origin)
        try:
            found = socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
        except UnicodeError:
            raise Refused(f"{origin.host[:80]!r} is no name of a host") from None
        addresses = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
        if origin not in self.trusted:
            refuse_private(origin.host, addresses)
        return addresses


def rules_of(entries: Sequence[str], *, trusted: Sequence[str] = ()) -> Rules:
    """From the setting's entries: names, and origins such as http://10.0.0.5:8000."""
    origins = {origin_of(entry) for entry in (*entries, *trusted) if "://" in entry}
    names = tuple(entry.lower() for entry in entries if "://" not in entry)
    return Rules(frozenset(origins), names)


def parse_hosts(text: str) -> list[str]:
    """The setting's entries; the default ones for nothing. Raises ValueError."""
    return parse_entries(text) or list(DEFAULT_HOSTS)


def parse_entries(text: str) -> list[str]:
    """Names and origins, with commas between them. Raises ValueError."""
    entries = [word.strip() for word in text.split(",") if word.strip()]
    for entry in entries:
        _check_entry(entry)
    return entries


def _check_entry(entry: str) -> None:
    if "://" in entry:
        try:
            origin_of(entry)
        except Refused as error:
            raise ValueError(str(error)) from None
        if urlsplit(entry).path not in ("", "/"):
            raise ValueError(f"{entry!r}: name scheme, host and port, and no path")
    elif not _HOST.fullmatch(entry):
        raise ValueError(
            f"{entry!r} is no host: write models.example.com, *.example.com, or with its scheme "
            "http://10.0.0.5:8000"
        )


def refuse_private(host: str, addresses: Sequence[str]) -> None:
    """Raises Refused when one of them is not an address of the public internet."""
    for address in addresses:
        if not is_public(address):
            raise Refused(
                f"{host} has the address {address}, which is not a public one: name the host with "
                "its scheme in CORRAL_DOWNLOAD_HOSTS if downloads shall reach it"
            )


def is_public(text: str) -> bool:
    try:
        address = innermost(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return False
    if any(address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global and not address.is_multicast


def innermost(address: Address) -> Address:
    """An IPv4 address that travels inside of an IPv6 one."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    if inner is None and int(address) >> 32 == 0:  # IPv4-compatible, ::a.b.c.d
        inner = ipaddress.IPv4Address(int(address))
    return inner or address


def _matches(host: str, entry: str) -> bool:
    if entry == "*":
        return True
    if entry.startswith("*."):
        return host.endswith(entry[1:])
    return host == entry
