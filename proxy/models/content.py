"""What was asked and answered, of teams that want it kept."""

from __future__ import annotations

from django.db import models

from proxy.models.usage import UsageRecord


class UsageContent(models.Model):
    """Redacted before it was written. It goes with its usage record, or before."""

    usage = models.OneToOneField(UsageRecord, on_delete=models.CASCADE, related_name="content")
    team_id = models.BigIntegerField(db_index=True, editable=False)
    at = models.DateTimeField(db_index=True)
    prompt = models.TextField(blank=True)
    answer = models.TextField(blank=True)
    cut = models.BooleanField("not whole", default=False)

    class Meta:
        verbose_name = "prompt and answer"
        verbose_name_plural = "prompts and answers"
        ordering = ["-id"]
        default_permissions = ("view",)

    def __str__(self) -> str:
        return str(self.usage)
