"""What of the trail somebody looks for: the same words in the admin, the management API and on the
command line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from models_registry.models import AuditRecord

ACTIONS = (
    "created", "changed", "deleted", "pinned", "unpinned", "switched on", "switched off", "loaded",
    "unloaded", "applied", "tried", "measured", "downloaded", "paused", "resumed", "cancelled",
    "rotated", "revoked", "content on", "content off", "password set", "logged in", "logged out",
    "login failed", "second factor on", "second factor off", "recovery codes made",
    "sign-on linked", "pruned",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Search:
    """All of these at once; what is empty is not asked for."""

    who: str = ""
    action: str = ""
    type: str = ""
    object: str = ""
    id: str = ""
    door: str = ""
    origin: str = ""
    request_id: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def conditions(self) -> Q:
        exact = {
            "action": self.action,
            "object_type": self.type,
            "object_id": self.id,
            "door": self.door,
            "request_id": self.request_id,
            "at__gte": self.since,
            "at__lt": self.until,
        }
        found = Q(**{name: value for name, value in exact.items() if value})
        if self.who:
            key = self.who.removeprefix("ck_")[:8]
            found &= Q(actor__icontains=self.who) | Q(key=key)
        if self.object:
            found &= Q(object_name__icontains=self.object)
        if self.origin:
            found &= Q(origin__icontains=self.origin)
        return found

    def rows(self) -> QuerySet[AuditRecord]:
        """The newest first."""
        return AuditRecord.objects.filter(self.conditions()).order_by("-number")
