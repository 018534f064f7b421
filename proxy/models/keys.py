"""The keys of teams."""

from __future__ import annotations

from django.db import models
from simple_history.models import HistoricalRecords

from proxy.models.teams import Team
from proxy.own_aliases import check_own_aliases, check_where_they_lead


class Scope(models.TextChoices):
    """What a key is good for. An admin key manages the gateway, and uses it as well."""

    INFERENCE = "inference", "use the models"
    ADMIN = "admin", "manage everything"


class ApiKey(models.Model):
    """A key of a team. Its secret is shown once, when it is made; only the digest is kept."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="keys")
    name = models.CharField(max_length=100, help_text="Who or what uses it.")
    scope = models.CharField(
        max_length=10,
        choices=Scope,
        default=Scope.INFERENCE,
        help_text="`admin` opens the management API, and all that a superuser may do there.",
    )
    public_id = models.CharField(max_length=8, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    created_at = models.DateTimeField(auto_now_add=True, editable=False)
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="Refused from then on; empty: never."
    )
    aliases = models.JSONField(
        default=dict,
        blank=True,
        validators=[check_own_aliases],
        help_text="Names that count for this key only, before its team's, and the model of each: "
        '{"gpt-4o*": "smollm2", "*": "qwen"}, where * alone is the default.',
    )
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Exact to a minute."
    )

    history = HistoricalRecords(excluded_fields=["digest", "last_used_at"])

    class Meta:
        verbose_name = "API key"
        ordering = ["team__name", "name", "public_id"]

    def __str__(self) -> str:
        return f"{self.name} (ck_{self.public_id}_…)"

    def clean(self) -> None:
        check_where_they_lead(self)
