"""Usage summed up per hour and per day. proxy/rollups raises the rows and reads them."""

from __future__ import annotations

from django.db import models

from proxy.rollups.figures import Grain


class RollUp(models.Model):
    """What one grain tells apart, and its figures since `start`. Times are microseconds."""

    grain = models.PositiveSmallIntegerField(choices=[(each.value, each.name) for each in Grain])
    start = models.DateTimeField()
    team_id = models.BigIntegerField(default=0)
    team = models.CharField(max_length=100, blank=True)
    key = models.CharField(max_length=20, blank=True)
    user = models.CharField(max_length=150, blank=True)
    preset = models.CharField(max_length=200, blank=True)

    requests = models.BigIntegerField(default=0)
    failed = models.BigIntegerField(default=0)
    refused = models.BigIntegerField(default=0)
    estimated = models.BigIntegerField("requests whose tokens are estimated", default=0)
    read = models.BigIntegerField("tokens read", default=0)
    cached = models.BigIntegerField("tokens of these that were cached", default=0)
    answered = models.BigIntegerField("tokens answered", default=0)
    queue_wait = models.BigIntegerField(default=0)
    load_wait = models.BigIntegerField(default=0)
    first_token = models.BigIntegerField(default=0)
    duration = models.BigIntegerField(default=0)
    histograms = models.JSONField("how often, by time and bucket", default=dict)
    codes = models.JSONField("how often, by error code", default=dict)

    class Meta:
        abstract = True
        default_permissions = ()  # proxy.view_usagerecord covers sums, too
        ordering = ["start", "grain", "team", "key", "preset"]

    def __str__(self) -> str:
        return f"{self.start:%Y-%m-%d %H:%M} {self.team} {self.key} {self.preset}".rstrip()


class UsageHour(RollUp):
    class Meta(RollUp.Meta):
        verbose_name = "usage of an hour"
        verbose_name_plural = "usage by the hour"
        constraints = [
            models.UniqueConstraint(
                fields=["grain", "start", "team_id", "team", "key", "user", "preset"],
                name="one_sum_for_each_hour",
            )
        ]
        indexes = [
            models.Index(fields=["grain", "team_id", "start"], name="usagehour_team"),
            models.Index(fields=["grain", "key", "start"], name="usagehour_key"),
            models.Index(fields=["grain", "preset", "start"], name="usagehour_preset"),
        ]


class UsageDay(RollUp):
    class Meta(RollUp.Meta):
        verbose_name = "usage of a day"
        verbose_name_plural = "usage"
        constraints = [
            models.UniqueConstraint(
                fields=["grain", "start", "team_id", "team", "key", "user", "preset"],
                name="one_sum_for_each_day",
            )
        ]
        indexes = [
            models.Index(fields=["grain", "team_id", "start"], name="usageday_team"),
            models.Index(fields=["grain", "key", "start"], name="usageday_key"),
            models.Index(fields=["grain", "preset", "start"], name="usageday_preset"),
        ]
