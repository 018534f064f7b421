"""Which people are in which teams."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from simple_history.models import HistoricalRecords

from proxy.models.teams import Team


class Membership(models.Model):
    """One person in one team. While it stands, and the person is active, their keys in it work."""

    class Role(models.TextChoices):
        """A lead sees the team's usage, makes its services' keys and revokes anybody's in it."""

        MEMBER = "member", "member"
        LEAD = "lead", "lead"

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(
        max_length=10,
        choices=Role,
        default=Role.MEMBER,
        help_text="A `lead` sees the team's usage, makes keys for its services and revokes "
        "anybody's in it.",
    )
    created_at = models.DateTimeField(auto_now_add=True, editable=False)

    history = HistoricalRecords()

    class Meta:
        ordering = ["team__name", "user__username"]
        constraints = [
            models.UniqueConstraint(
                fields=["user", "team"],
                name="once_in_a_team",
                violation_error_message="They are in this team already.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.user.get_username()} in {self.team.name}"
