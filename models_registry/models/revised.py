"""Rows that what runs depends on raise the registry's revision."""

from __future__ import annotations

from typing import Any

from django.db import models, transaction


class Revised(models.Model):
    """A row whose every save and delete raises the registry's revision.

    The signal that raises it must run inside the transaction of the save, which Django does not
    open by itself for one table. `QuerySet.update` and `bulk_create` send no signal: whoever uses
    them calls `revision.bump()`.
    """

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        with transaction.atomic(using=kwargs.get("using")):
            super().save(*args, **kwargs)


class Source(models.TextChoices):
    """Where a row came from; `admin` ones are never removed by a rescan."""

    ADMIN = "admin", "added by hand"
    MODELS_DIR = "models_dir", "found in the models folder"
    DEMO = "demo", "the demo model"
    COMMAND_LINE = "command_line", "named on serve's command line"
    CACHE = "cache", "found in the Hugging Face cache"
    OLLAMA = "ollama", "found in Ollama's store"
    PRESET_FILE = "preset_file", "defined by the presets file"
    DOWNLOAD = "download", "downloaded by Corral"


class RegistryRevision(models.Model):
    """One row: raised in the transaction of every change above, so that readers see what is new."""

    number = models.BigIntegerField(default=0)
    demo_registered = models.BooleanField(
        default=False, help_text="The demo was registered once; deleted, it does not come back."
    )

    def __str__(self) -> str:
        return str(self.number)
