"""When slots are saved, and for whom."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KvRule:
    """`wait_seconds`: so long an exit waits for what is saved, and nobody is kept from a fresh
    instance for longer by what is restored for others. What nobody came back for in `lasts_seconds`
    is removed. `isolated`: a tenant's saves are for it
    alone."""

    wait_seconds: float = 1.0
    least_tokens: int = 256
    lasts_seconds: float = 86_400.0
    isolated: bool = False
