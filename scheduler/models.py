"""The record: what ran and why. Append-only; what is true now is asked on the control socket.

Beside it, what people say of devices.
"""

from __future__ import annotations

from datetime import timedelta

from django.core.validators import MaxValueValidator, RegexValidator
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone
from simple_history.models import HistoricalRecords

from models_registry.models import Revised

from .protocol import DEVICE_NAME


class InstanceRecord(models.Model):
    """One child, from its start to its end. `argv` is filled once it is known to have been run."""

    preset = models.CharField(max_length=200, db_index=True)
    revision = models.BigIntegerField("registry revision", default=0)
    pid = models.PositiveIntegerField(null=True)
    argv = models.JSONField("command line", default=list)
    started_at = models.DateTimeField(db_index=True)
    loaded_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True, db_index=True)
    reason = models.CharField("why it ended", max_length=30, blank=True)
    exit_code = models.IntegerField(null=True)
    signal = models.IntegerField(null=True)
    words = models.TextField("last words", blank=True)
    placement = models.CharField("where it went", max_length=10, blank=True)
    layers = models.JSONField("layers on each device", default=dict)
    context = models.BigIntegerField("context granted", default=0)
    predicted = models.JSONField("bytes granted on each device", default=dict)
    actual = models.JSONField("bytes that it said it had allocated", default=dict)
    figures = models.CharField("fingerprint of its measurement", max_length=32, blank=True)
    surplus = models.JSONField("bytes granted beyond its measurement", default=dict)
    cached = models.FloatField("part of its files that was in memory at its start", null=True)

    class Meta:
        verbose_name = "instance"
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.preset} ({self.pk})"


class DecisionRecord(models.Model):
    """Why something was loaded, drained, evicted or refused."""

    at = models.DateTimeField(db_index=True)
    kind = models.CharField(max_length=20)
    preset = models.CharField(max_length=200)
    instance = models.ForeignKey(
        InstanceRecord, on_delete=models.SET_NULL, null=True, related_name="decisions"
    )
    reason = models.CharField(max_length=30)
    figures = models.JSONField(default=dict)

    class Meta:
        verbose_name = "decision"
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.kind} {self.preset}: {self.reason}"


_SIZE = [MaxValueValidator(2**31 - 1)]


class DeviceLimit(Revised):
    """What Corral may use of one device, in MiB. A change raises the registry's revision: the
    scheduler then reads it (scheduler/limits.py says what else counts)."""

    device = models.CharField(
        max_length=64,
        validators=[RegexValidator(DEVICE_NAME, "Write the engine's name of it: CUDA0, or Host.")],
        help_text="As the engine names it: CUDA0, RPC0, Host.",
    )
    budget = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=_SIZE,
        help_text="MiB that Corral may use of it in all. Unset: all that others leave.",
    )
    margin = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=_SIZE,
        help_text="MiB that stay free. Unset: 1024, of the host a sixteenth.",
    )

    history = HistoricalRecords()

    class Meta:
        verbose_name = "device limit"
        ordering = ["device"]
        constraints = [
            models.UniqueConstraint(
                Lower("device"),
                name="one_limit_for_each_device",
                violation_error_message="There are limits for this device already: change those.",
            )
        ]

    def __str__(self) -> str:
        return self.device


def prune_record(days: int) -> int:
    """Removes what is older, but no instance that still runs; returns how many rows went."""
    oldest = timezone.now() - timedelta(days=days)
    decisions, _ = DecisionRecord.objects.filter(at__lt=oldest).delete()
    instances, _ = InstanceRecord.objects.filter(ended_at__lt=oldest).delete()
    return decisions + instances
