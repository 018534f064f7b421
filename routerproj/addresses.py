"""How much one address has at once: connections to a server, or requests by a proxy of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from ipaddress import IPv6Address, ip_network

from models_registry.client_address import Network, plain_address

HOUSE_BITS = 64
"""Of an IPv6 address: whoever has one has the whole network of it."""
TOO_MANY_OF_ADDRESS = (
    "too many connections of this address are open: CORRAL_CONNECTIONS_PER_ADDRESS sets the limit"
)


class Addresses:
    """`most` of each; 0: no limit. What is counted must be taken back, by the name that it was
    counted under."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counted: Counter[str] = Counter()

    def count(self, house: str) -> int:
        """Returns by how many that is too much. An empty name is nobody's, and never too much."""
        if not house or not self._most:
            return 0
        self._counted[house] += 1
        return max(0, self._counted[house] - self._most)

    def take_back(self, house: str) -> None:
        if self._counted[house] > 1:
            self._counted[house] -= 1
        else:
            del self._counted[house]


@lru_cache(4096)
def house_of(address: str) -> str:
    """What an address is counted under; empty for this machine's own, and for what is none."""
    found = plain_address(address)
    if found is None or found.is_loopback:
        return ""
    if isinstance(found, IPv6Address):
        return str(ip_network((int(found), HOUSE_BITS), strict=False))
    return str(found)


def is_proxy(address: str, proxies: Collection[Network]) -> bool:
    found = plain_address(address)
    return found is not None and any(found in network for network in proxies)
