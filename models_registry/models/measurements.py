"""What presets were measured to take."""

from __future__ import annotations

from django.db import models


class Measurement(models.Model):
    """What an instance takes on each device, by the memory fingerprint of its options and files.

    One row per fingerprint, whichever presets share it. Written by the measure job and by whoever
    orders one (models_registry/measurements.py); nobody edits it.
    """

    class State(models.TextChoices):
        PENDING = "pending", "waiting to be measured"
        MEASURED = "measured", "measured"
        FAILED = "failed", "failed"
        UNREADABLE = "unreadable", "its header cannot be read"

    fingerprint = models.CharField(max_length=64, unique=True)
    preset = models.CharField(max_length=200, help_text="The preset it was ordered for.")
    state = models.CharField(max_length=10, choices=State, default=State.PENDING)
    shape = models.JSONField(
        null=True, help_text="What it takes at each context, wherever it may be put."
    )
    estimated = models.BooleanField(
        default=False, help_text="The shape is by the header alone: measuring failed."
    )
    devices = models.JSONField(
        default=list,
        help_text="Bytes on each device at the smallest context: model, context, compute; of the "
        "model, its weights alone.",
    )
    error = models.TextField(blank=True)
    engine = models.CharField("engine version", max_length=250, blank=True)
    way = models.CharField(
        "how", max_length=20, blank=True, help_text="docs/measuring.md names the ways."
    )
    seconds = models.FloatField(null=True, help_text="How long measuring took.")
    attempts = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    ordered_at = models.DateTimeField(help_text="When it was last put on the queue.")
    started_at = models.DateTimeField(null=True, help_text="Set while a job works on it.")
    measured_at = models.DateTimeField(null=True, help_text="When it last succeeded or failed.")
    used_at = models.DateTimeField(help_text="When a preset last had this fingerprint.")

    class Meta:
        ordering = ["preset", "-id"]

    def __str__(self) -> str:
        return f"{self.preset}: {self.get_state_display()}"
