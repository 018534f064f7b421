"""Those who share a place in the queue."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import models
from simple_history.models import HistoricalRecords

from models_registry.models import Priority
from proxy.own_aliases import check_own_aliases, check_where_they_lead

DEFAULT_TEAM = "default"
"""Made by the first migration; requests without a key of their own count for it."""

LEAST_WEIGHT, MOST_WEIGHT = 0.01, 1000.0


def check_weight(value: float) -> None:
    """Raises ValidationError; so for what is no number."""
    if not LEAST_WEIGHT <= value <= MOST_WEIGHT:
        raise ValidationError(f"Write a number from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}.")


class Team(models.Model):
    """Those who share a place in the queue."""

    name = models.CharField(max_length=100, unique=True)
    weight = models.FloatField(
        default=1.0,
        validators=[check_weight],
        help_text="Its share while others wait as well: 2 gets twice what 1 gets.",
    )
    priority = models.CharField(
        max_length=10,
        choices=Priority,
        default=Priority.NORMAL,
        help_text="Its requests count as come earlier (`high`) or later (`low`), within a bound.",
    )
    aliases = models.JSONField(
        default=dict,
        blank=True,
        validators=[check_own_aliases],
        help_text="Names that count for its keys only, before everybody's, and the model of each: "
        '{"gpt-4o*": "smollm2", "*": "qwen"}, where * alone is the default.',
    )
    created_at = models.DateTimeField(auto_now_add=True, editable=False)

    history = HistoricalRecords()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(weight__gte=LEAST_WEIGHT, weight__lte=MOST_WEIGHT),
                name="team_weight_is_a_share",
            )
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        check_where_they_lead(self)
