"""Who may use the gateway, in the admin."""

from proxy.admin.content import UsageContentAdmin as UsageContentAdmin
from proxy.admin.keys import ApiKeyAdmin as ApiKeyAdmin
from proxy.admin.limits import LimitAdmin as LimitAdmin
from proxy.admin.members import MembershipAdmin as MembershipAdmin
from proxy.admin.teams import TeamAdmin as TeamAdmin
