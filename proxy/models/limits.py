"""What keys, teams and models may use."""

from __future__ import annotations

import base64
import secrets
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator
from django.db import models
from django.utils.translation import gettext as _
from simple_history.models import HistoricalRecords

from models_registry.models import Alias, Preset
from proxy.models.keys import ApiKey
from proxy.models.teams import Team

MOST_REQUESTS = 1_000_000
MOST_TOKENS = 10**15
FIGURES = (
    "requests_per_minute",
    "tokens_per_minute",
    "concurrent",
    "tokens_per_day",
    "tokens_per_month",
)
_ZERO = "Empty: no limit; 0: nothing is allowed."


def new_counter() -> str:
    """Forty random bits: never another row's, whatever becomes of rows and databases."""
    return base64.b32encode(secrets.token_bytes(5)).decode().lower()


def _figure(name: str, most: int, help_text: str) -> Any:
    return models.BigIntegerField(
        name,
        null=True,
        blank=True,
        validators=[check_figure, MaxValueValidator(most)],
        help_text=f"{help_text} {_ZERO}",
    )


def check_figure(value: int) -> None:
    """Raises ValidationError."""
    if value < 0:
        raise ValidationError(_("Write 0 or more; empty is no limit."))


class Limit(models.Model):
    """What a key may use, or all keys of a team together, or everybody together; of one model,
    where the row names it. The scheduler counts by `counter`, which stays when figures change."""

    team = models.ForeignKey(
        Team,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="limits",
        help_text="All its keys together.",
    )
    key = models.ForeignKey(
        ApiKey,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="limits",
        help_text="This key, with those that replace it.",
    )
    model = models.CharField(
        max_length=200,
        blank=True,
        help_text="The name of a preset, or an alias. Empty: all models together.",
    )
    requests_per_minute = _figure(
        "requests a minute", MOST_REQUESTS, "That come in during any 60 seconds."
    )
    tokens_per_minute = _figure(
        "tokens a minute", MOST_TOKENS, "Read (but for cached ones) and answered."
    )
    concurrent = _figure("requests at once", MOST_REQUESTS, "That wait or are answered.")
    tokens_per_day = _figure("tokens a day", MOST_TOKENS, "From 00:00 UTC.")
    tokens_per_month = _figure("tokens a month", MOST_TOKENS, "From the 1st, 00:00 UTC.")
    counter = models.CharField(max_length=8, unique=True, default=new_counter, editable=False)
    created_at = models.DateTimeField(auto_now_add=True, editable=False)

    history = HistoricalRecords()

    class Meta:
        ordering = ["team__name", "key__name", "model", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["team", "model"],
                condition=models.Q(team__isnull=False),
                name="one_limit_of_a_team_for_a_model",
                violation_error_message="This team has a limit for this model: change that one.",
            ),
            models.UniqueConstraint(
                fields=["key", "model"],
                condition=models.Q(key__isnull=False),
                name="one_limit_of_a_key_for_a_model",
                violation_error_message="This key has a limit for this model: change that one.",
            ),
            models.UniqueConstraint(
                fields=["model"],
                condition=models.Q(team__isnull=True, key__isnull=True),
                name="one_limit_of_all_for_a_model",
                violation_error_message="This model has a limit for all: change that one.",
            ),
        ]

    def __str__(self) -> str:
        whose = self.key or self.team or "everybody"
        return f"{whose} · {self.model}" if self.model else str(whose)

    def clean(self) -> None:
        if self.team_id is not None and self.key_id is not None:
            raise ValidationError(_("A limit is a team's or a key's: make two for both."))
        if self.team_id is None and self.key_id is None and not self.model:
            raise ValidationError(_("Say whose limit it is: a team's, a key's, or a model's."))
        if all(getattr(self, name) is None for name in FIGURES):
            raise ValidationError(_("Write at least one figure; without any it limits nothing."))
        self._check_its_model()

    def _check_its_model(self) -> None:
        """One that is as it was stored is not looked at: its preset may have gone since."""
        stored = Limit.objects.filter(pk=self.pk).values_list("model", flat=True).first()
        if not self.model or self.model == stored:
            return
        named = {"name": self.model}
        if not (Preset.objects.filter(**named).exists() or Alias.objects.filter(**named).exists()):
            told = _("No preset or alias is called %(value)s.") % {"value": f"{self.model[:60]!r}"}
            raise ValidationError({"model": told})
