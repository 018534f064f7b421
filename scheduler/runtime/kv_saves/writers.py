"""Who has written into the slots of one instance, as far as that can be told. Pure.

The child does not say which request wrote into which slot. What is known for certain is who was
given the instance at all; a slot's writer is guessed by the number of its tokens, which is that of
the prompt and the answer of the request that wrote it last.
"""

from __future__ import annotations

from collections import deque
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

    def of(self, tokens: int) -> str:
        """The one whose last request fits the slot; empty where none does."""
        if self.is_one:
            return next(iter(self.tenants))
        for tenant, stated in reversed(self._stated):
            if abs(stated - tokens) <= NEARLY:
                return tenant
        return ""
