"""A group that is deleted leaves its presets without one, which their histories tell."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models.signals import pre_delete

from models_registry import bulk
from models_registry.models import Group, Preset


def _goes(instance: Group, **_: Any) -> None:
    with transaction.atomic():
        rows = list(Preset.objects.select_for_update().filter(group=instance))
        for row in rows:
            row.group = None
        bulk.update(rows, ["group"], f"the group {instance.name} was deleted")


def connect() -> None:
    """Called once, when Django is ready."""
    pre_delete.connect(_goes, sender=Group, dispatch_uid="models_registry.ungrouping")
