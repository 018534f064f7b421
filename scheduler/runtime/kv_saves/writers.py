"""Who has written into the slots of one instance, as far as that can be told. Pure.

The child does not say which request wrote into which slot. What is known for certain is who was
given the instance at all; a slot's writer is guessed by the number of its tokens, which is that of
the prompt and the answer of the request that wrote it last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

MOST_REQUESTS = 256
NEARLY = 2
"""Tokens by which a slot may differ from what its request has stated: the last one of an answer is
not read again."""


@dataclass(slots=True)
class Writers:
    """`tenants` are all who were given the instance, or whose saves were restored into it."""

    tenants: set[str] = field(default_factory=set)
    _stated: deque[tuple[str, int]] = field(default_factory=lambda: deque(maxlen=MOST_REQUESTS))

    def given(self, tenant: str) -> None:
        self.tenants.add(tenant)

    def stated(self, tenant: str, tokens: int) -> None:
        """A request has ended whose prompt and answer have so many tokens together."""
        self._stated.append((tenant, tokens))

    @property
    def is_one(self) -> bool:
        return len(self.tenants) == 1

    def of(self, slots: Sequence[int]) -> list[str]:
        """Of slots that hold so many tokens, the last written first, each one's writer: the last
        request that fits it and none before it. Empty where none does."""
        if self.is_one:
            return [next(iter(self.tenants))] * len(slots)
        left = list(reversed(self._stated))
        return [_taken(left, tokens) for tokens in slots]


def _taken(left: list[tuple[str, int]], tokens: int) -> str:
    """The first that fits; it is none of those that are left then."""
    for at, (tenant, stated) in enumerate(left):
        if abs(stated - tokens) <= NEARLY:
            del left[at]
            return tenant
    return ""
