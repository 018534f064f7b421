"""Who may use the gateway: teams and their keys; and what they have used."""

from proxy.models.keys import ApiKey, Scope
from proxy.models.rollups import UsageDay, UsageHour
from proxy.models.teams import (
    DEFAULT_TEAM,
    LEAST_WEIGHT,
    MOST_WEIGHT,
    Team,
    check_weight,
)
from proxy.models.usage import UsageRecord

__all__ = [
    "DEFAULT_TEAM",
    "LEAST_WEIGHT",
    "MOST_WEIGHT",
    "ApiKey",
    "Scope",
    "Team",
    "UsageDay",
    "UsageHour",
    "UsageRecord",
    "check_weight",
]
