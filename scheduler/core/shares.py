"""What each tenant has lately used, and how far that sets its requests back (A1, A8).

Use is counted in seconds of one slot: the tokens that were computed, over the tokens a second that
slots have been seen to compute. It fades exponentially over the window, so that nobody pays for
what he used an hour ago. All fade alike: so what is kept of each is a figure that does not fade,
and one factor, the same for all, says what it is worth now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp

from .learned import Learned
from .values import Config, PresetName, TenantId

_FORGOTTEN = 1e-3  # seconds of a slot: less than one token
_LARGEST_EXPONENT = 200.0  # far from what a float cannot hold


@dataclass(slots=True)
class _Use:
    weight: float
    kept: float = 0.0  # seconds, as they would count at the origin of time
    present: int = 0  # requests that wait or are answered


class Shares:
    """A tenant is known while it has a request, and until what it used has faded."""

    def __init__(self, config: Config, learned: Learned) -> None:
        self._jump = config.max_priority_jump_seconds
        self._window = config.share_window_seconds
        self._learned = learned
        self._uses: dict[TenantId, _Use] = {}
        self._weights = 0.0  # of all that are known
        self._kept = 0.0  # of all
        self._origin = 0.0
        self._factor = 0.0  # from what is kept over the weight, to seconds of set-back
        self._factor_at: float | None = None

    def arrive(self, tenant: TenantId, weight: float) -> None:
        use = self._uses.get(tenant)
        if use is None:
            use = self._uses[tenant] = _Use(weight)
            self._weights += weight
            self._factor_at = None
        elif use.weight != weight:
            self._weights += weight - use.weight
            use.weight = weight
            self._factor_at = None
        use.present += 1

    def leave(self, tenant: TenantId) -> None:
        self._uses[tenant].present -= 1

    def charge(self, tenant: TenantId, seconds: float, now: float) -> None:
        """Negative gives back what was charged too much."""
        if not seconds:
            return
        use = self._uses[tenant]
        kept = max(-use.kept, seconds / self._worth(now))
        use.kept += kept
        self._kept = max(0.0, self._kept + kept)
        self._factor_at = None

    def seconds(self, tokens: int | None, held_seconds: float) -> float:
        """What an answer used: its tokens, or where nobody counted them the time it took."""
        speed = self._learned.tokens_per_second
        if tokens is None or speed is None:
            return held_seconds
        return tokens / speed

    def faded(self, seconds: float, after: float) -> float:
        """What seconds that were charged so long ago count for now."""
        return seconds * exp(-after / self._window) if seconds else 0.0

    def level(self, tenant: TenantId, now: float, *, answers: int, preset: PresetName) -> float:
        """Seconds of set-back without a bound, as they will be after so many more of the preset's
        usual answers."""
        use, factor = self._uses.get(tenant), self._factor_of(now)
        if use is None or not factor:
            return 0.0
        kept = use.kept + answers * self._learned.answer(preset) / self._worth(now)
        return kept * factor / use.weight

    def use_of(self, preset: PresetName, answers: int) -> float:
        """Seconds that so many of the preset's usual answers use."""
        return answers * self._learned.answer(preset)

    def levels(self, now: float) -> Callable[[TenantId], float]:
        """The same of many in one moment, and as it is: what all have in common is worked out
        once."""
        uses, factor = self._uses, self._factor_of(now)

        def level(tenant: TenantId) -> float:
            use = uses.get(tenant)
            return 0.0 if use is None else use.kept * factor / use.weight

        return level

    def penalties(self, now: float) -> Callable[[TenantId], float]:
        """Seconds by which a tenant's requests count as later. On a busy machine its share of all
        that was used decides, over its weight; what little an idle one served counts as it is.
        Never more than `max_priority_jump`, so that everybody's turn comes."""
        uses, factor, most = self._uses, self._factor_of(now), self._jump

        def penalty(tenant: TenantId) -> float:
            use = uses.get(tenant)
            if use is None:
                return 0.0
            seconds = use.kept * factor / use.weight
            return seconds if seconds < most else most

        return penalty

    def _factor_of(self, now: float) -> float:
        """From what is kept of a use, over its weight, to seconds of set-back."""
        if now != self._factor_at:
            self._work_out_factor(now)
        return self._factor

    def _work_out_factor(self, now: float) -> None:
        self._factor_at, self._factor = now, 0.0
        if len(self._uses) > 1:  # else it is the same for all, and orders nothing
            worth = self._worth(now)
            mean_weight = self._weights / len(self._uses)
            self._factor = self._jump * mean_weight * worth / max(self._window, self._kept * worth)

    def forget(self, now: float) -> None:
        """Those whose use has faded."""
        least = _FORGOTTEN / self._worth(now)
        gone = [
            tenant for tenant, use in self._uses.items() if not use.present and use.kept < least
        ]
        for tenant in gone:
            use = self._uses.pop(tenant)
            self._weights -= use.weight
            self._kept = max(0.0, self._kept - use.kept)
        self._factor_at = None

    def _worth(self, now: float) -> float:
        """What a kept second counts now."""
        exponent = (self._origin - now) / self._window
        if exponent < -_LARGEST_EXPONENT:
            faded = exp(exponent) if exponent > -700.0 else 0.0
            for use in self._uses.values():
                use.kept *= faded
            self._kept *= faded
            self._origin, exponent = now, 0.0
        return exp(exponent)
