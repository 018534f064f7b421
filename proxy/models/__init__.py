"""Who may use the gateway: teams and their keys."""

from proxy.models.keys import ApiKey, Scope
from proxy.models.teams import (
    DEFAULT_TEAM,
    LEAST_WEIGHT,
    MOST_WEIGHT,
    Team,
    check_weight,
)

__all__ = [
    "DEFAULT_TEAM",
    "LEAST_WEIGHT",
    "MOST_WEIGHT",
    "ApiKey",
    "Scope",
    "Team",
    "check_weight",
]
