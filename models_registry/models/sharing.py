"""Groups: which presets share the machine."""

from __future__ import annotations

from django.db import models
from simple_history.models import HistoricalRecords

from models_registry import validation
from models_registry.models.revised import Revised


class Group(Revised):
    """Presets that share the machine by rules of their own, whatever memory would allow."""

    name = models.CharField(max_length=200, unique=True, validators=[validation.validate_name])
    one_at_a_time = models.BooleanField(
        default=False, help_text="Of its presets one at a time is loaded."
    )
    exclusive = models.BooleanField(
        default=False,
        help_text="Presets outside the group are not loaded beside its own, but for those of "
        "persistent groups.",
    )
    persistent = models.BooleanField(
        default=False, help_text="Its presets stay beside those of exclusive groups."
    )

    history = HistoricalRecords()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
