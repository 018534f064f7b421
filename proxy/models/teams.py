"""Those who share a place in the queue."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext as _
from simple_history.models import HistoricalRecords

from models_registry.models import Priority
from proxy.allowed import check_allowed
from proxy.own_aliases import check_own_aliases, check_where_they_lead
from proxy.scopes import Scope, in_order, scopes_problem, usual

DEFAULT_TEAM = "default"
"""Made by the first migration; requests without a key of their own count for it."""

LEAST_WEIGHT, MOST_WEIGHT = 0.01, 1000.0
MOST_CONTENT_DAYS = 3650


def check_weight(value: float) -> None:
    """Raises ValidationError; so for what is no number."""
    if not LEAST_WEIGHT <= value <= MOST_WEIGHT:
        raise ValidationError(
            _("Write a number from %(LEAST_WEIGHT)s to %(MOST_WEIGHT)s.")
            % {"LEAST_WEIGHT": f"{LEAST_WEIGHT:g}", "MOST_WEIGHT": f"{MOST_WEIGHT:g}"}
        )


FOR_MEMBERS = (Scope.INFER, Scope.READ, Scope.LOAD)
"""What a key may have that nobody with more rights has made."""


def check_member_scopes(scopes: object) -> None:
    """Raises ValidationError."""
    if problem := scopes_problem(scopes, FOR_MEMBERS):
        raise ValidationError(problem)


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
    allowed = models.JSONField(
        "allowed models",
        default=list,
        blank=True,
        validators=[check_allowed],
        help_text="The names of presets or aliases that its keys may use, with * at the end for "
        'all that begin so: ["qwen*", "smollm2"]. Empty: all.',
    )
    member_scopes = models.JSONField(
        "scopes for members",
        default=usual,
        validators=[check_member_scopes],
        help_text="What its members may give keys that they make themselves.",
    )
    keeps_content = models.BooleanField(
        "prompts and answers are stored",
        default=False,
        help_text="Redacted, and read by whoever has the permission. All members see that it is "
        "so, and each answer says it (x-corral-content-stored).",
    )
    content_days = models.PositiveSmallIntegerField(
        "days for which they are stored",
        default=7,
        validators=[MinValueValidator(1), MaxValueValidator(MOST_CONTENT_DAYS)],
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
        if not scopes_problem(self.member_scopes, FOR_MEMBERS):
            self.member_scopes = in_order(self.member_scopes)
