"""Profiles and the global preset: what counts for many presets at once."""

from __future__ import annotations

from django.db import models
from simple_history.models import HistoricalRecords

from models_registry import validation
from models_registry.models.presets import Preset
from models_registry.models.revised import Revised


class Profile(Revised):
    """Presets that are switched on and off together. A preset in no profile is always on."""

    name = models.CharField(max_length=200, unique=True, validators=[validation.validate_name])
    description = models.CharField(max_length=500, blank=True)
    active = models.BooleanField(
        default=True,
        help_text="Its presets are on. One that is only in profiles that are off is not offered, "
        "and what runs of it ends when it has answered.",
    )
    presets = models.ManyToManyField(Preset, blank=True, related_name="profiles")

    history = HistoricalRecords(m2m_fields=[presets])

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class GlobalPreset(Revised):
    """One row: `[*]`, what counts for every preset that does not say otherwise."""

    file_options = models.JSONField(default=dict, editable=False)
    options = models.TextField(
        blank=True,
        help_text="One `key = value` a line, for every preset that does not set the key itself.",
    )

    history = HistoricalRecords()

    class Meta:
        verbose_name = "global preset"
        verbose_name_plural = "global preset"

    def __str__(self) -> str:
        return "[*]"

    def clean(self) -> None:
        validation.check_global_preset(self)
