"""What requests have used: one row for each try, written from the journal (proxy/usage)."""

from __future__ import annotations

from django.db import models


class UsageRecord(models.Model):
    """Names are texts, not references: a row says who it was then, whatever becomes of them. `team`
    may be renamed and taken by another; `team_id` is never used again. docs/usage.md explains the
    fields."""

    record = models.CharField(max_length=48, unique=True, editable=False)
    request_id = models.CharField("request", max_length=128, db_index=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    final = models.BooleanField(default=True, help_text="No other try followed it.")
    at = models.DateTimeField("began")
    team = models.CharField(max_length=100, blank=True)
    team_id = models.BigIntegerField(default=0, editable=False)
    key = models.CharField(max_length=8, blank=True)
    key_name = models.CharField(max_length=100, blank=True)
    user = models.CharField(max_length=150, blank=True)
    asked = models.CharField("model asked for", max_length=200, blank=True)
    preset = models.CharField(max_length=200, blank=True)
    instance = models.BigIntegerField(null=True, blank=True)
    path = models.CharField(max_length=100, blank=True)
    dialect = models.CharField(max_length=12, blank=True)
    stream = models.BooleanField(default=False)
    status = models.PositiveSmallIntegerField(default=0)
    code = models.CharField("error code", max_length=50, blank=True)
    read = models.BigIntegerField("tokens read", null=True, blank=True)
    cached = models.BigIntegerField("of these cached", null=True, blank=True)
    answered = models.BigIntegerField("tokens answered", null=True, blank=True)
    estimated = models.BooleanField(default=False)
    charged = models.BooleanField(default=False)
    queue_wait = models.FloatField("seconds in the queue", null=True, blank=True)
    load_wait = models.FloatField("seconds for a load", null=True, blank=True)
    first_token = models.FloatField("seconds to the first token", null=True, blank=True)
    duration = models.FloatField("seconds in all", null=True, blank=True)
    client = models.CharField(max_length=100, blank=True)
    upstream = models.BooleanField("reached a model", default=False)

    class Meta:
        verbose_name = "usage record"
        ordering = ["-id"]
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["at"], name="usage_at"),
            models.Index(fields=["team_id", "at"], name="usage_team_at"),
            models.Index(fields=["key", "at"], name="usage_key_at"),
        ]

    def __str__(self) -> str:
        return f"{self.request_id} ({self.attempt})"
