"""Who may use the gateway: teams, the people in them, and keys; and what they have used."""

from proxy.models.content import UsageContent
from proxy.models.keys import ApiKey, check_scopes, usable
from proxy.models.limits import Limit
from proxy.models.members import Membership
from proxy.models.rollups import UsageDay, UsageHour
from proxy.models.teams import (
    DEFAULT_TEAM,
    FOR_MEMBERS,
    LEAST_WEIGHT,
    MOST_WEIGHT,
    Team,
    check_member_scopes,
    check_weight,
)
from proxy.models.usage import UsageRecord

__all__ = [
    "DEFAULT_TEAM",
    "FOR_MEMBERS",
    "LEAST_WEIGHT",
    "MOST_WEIGHT",
    "ApiKey",
    "Limit",
    "Membership",
    "Team",
    "UsageContent",
    "UsageDay",
    "UsageHour",
    "UsageRecord",
    "check_member_scopes",
    "check_scopes",
    "check_weight",
    "usable",
]
