"""What each tenant has lately used, and how far that sets its requests back (A1, A8).

Use is counted in seconds of one slot: the tokens that were computed, over the tokens a second that
slots have been seen to compute. It fades exponentially over the window, so that nobody pays for
what he used an hour ago, and a tenant's number is two floats, however much it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from .learned import Learned
from .values import Config, TenantId

_FORGOTTEN = 1e-3  # seconds of a slot: less than one token


@dataclass(slots=True)
class _Use:
    weight: float
    seconds: float = 0.0  # as it was `at`
    at: float = 0.0
    present: int = 0  # requests that wait or are answered


class Shares:
    """A tenant is known while it has a request, and until what it used has faded."""

    def __init__(self, config: Config, learned: Learned) -> None:
        self._jump = config.max_priority_jump_seconds
        self._window = config.share_window_seconds
        self._learned = learned
        self._uses: dict[TenantId, _Use] = {}
        self._weights = 0.0  # of all that are known
        self._all = _Use(0.0)

    def arrive(self, tenant: TenantId, weight: float, now: float) -> None:
        use = self._uses.get(tenant)
        if use is None:
            use = self._uses[tenant] = _Use(weight, at=now)
            self._weights += weight
        elif use.weight != weight:
            self._weights += weight - use.weight
            use.weight = weight
        use.present += 1

    def leave(self, tenant: TenantId) -> None:
        self._uses[tenant].present -= 1

    def charge(self, tenant: TenantId, seconds: float, now: float) -> None:
        """Negative gives back what was charged too much."""
        use = self._uses[tenant]
        use.seconds = max(0.0, self._faded(use, now) + seconds)
        self._all.seconds = max(0.0, self._faded(self._all, now) + seconds)
        use.at = self._all.at = now

    def seconds(self, tokens: int | None, held_seconds: float) -> float:
        """What an answer used: its tokens, or where nobody counted them the time it took."""
        speed = self._learned.tokens_per_second
        if tokens is None or speed is None:
            return held_seconds
        return tokens / speed

    def penalty(self, tenant: TenantId, now: float) -> float:
        """Seconds by which its requests count as later. On a busy machine a tenant's share of all
        that was used decides, over its weight; what little an idle one served counts as it is.
        Never more than `max_priority_jump`, so that everybody's turn comes."""
        if len(self._uses) < 2:
            return 0.0  # the same for all, so it orders nothing
        use = self._uses.get(tenant)
        if use is None or use.seconds < _FORGOTTEN:
            return 0.0
        mean_weight = self._weights / len(self._uses)
        total = max(self._window, self._faded(self._all, now))
        return min(
            self._jump, self._jump * self._faded(use, now) * mean_weight / (use.weight * total)
        )

    def forget(self, now: float) -> None:
        """Those whose use has faded."""
        gone = [
            tenant
            for tenant, use in self._uses.items()
            if not use.present and self._faded(use, now) < _FORGOTTEN
        ]
        for tenant in gone:
            self._weights -= self._uses.pop(tenant).weight

    def _faded(self, use: _Use, now: float) -> float:
        return use.seconds * exp((use.at - now) / self._window) if use.seconds else 0.0
