"""The audit trail: who changed what, from where. Append-only."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models
from django.db.models import Q


class AppendOnly(Exception):
    """The trail is written by models_registry/audit, and never changed."""


class _Trail(models.QuerySet[Any]):
    """To be read."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly("the audit trail is append-only: audit.writing.record writes it")

    create = bulk_create = get_or_create = update_or_create = _refuse
    update = bulk_update = delete = _raw_delete = _refuse


class AuditRecord(models.Model):
    """One thing that somebody did. models_registry/audit writes the rows, and says in chain.py what
    `digest` is of; the database refuses to change or delete them (audit/triggers.py)."""

    number = models.BigIntegerField(primary_key=True, help_text="Without gaps, from 1.")
    at = models.DateTimeField(db_index=True)
    kind = models.CharField("kind of actor", max_length=20)
    actor = models.CharField(max_length=200)
    user = models.BigIntegerField("account's number", null=True)
    key = models.CharField(max_length=8, blank=True, help_text="The public part of an API key.")
    door = models.CharField(max_length=20)
    origin = models.CharField("from where", max_length=500, blank=True)
    action = models.CharField(max_length=30)
    object_type = models.CharField(max_length=30)
    object_id = models.CharField("object's number", max_length=40, blank=True)
    object_name = models.CharField("object", max_length=250)
    team = models.BigIntegerField(null=True, help_text="Whose leads may read it.")
    changes = models.TextField(
        default="{}", help_text='{"field": [before, after]}; no secret is among them.'
    )
    note = models.CharField(max_length=250, blank=True)
    request_id = models.CharField(max_length=128, blank=True)
    prunes_through = models.BigIntegerField(null=True, help_text="Records up to it were removed.")
    digest = models.CharField(max_length=64)

    objects = _Trail.as_manager()

    class Meta:
        verbose_name = "audit record"
        ordering = ["-number"]
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["object_type", "object_id"], name="audit_by_object"),
            models.Index(fields=["team"], name="audit_by_team", condition=Q(team__isnull=False)),
            models.Index(
                fields=["prunes_through"],
                name="audit_prunings",
                condition=Q(prunes_through__isnull=False),
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(prunes_through__isnull=True) | Q(prunes_through__lt=models.F("number")),
                name="audit_prunes_what_is_older",
            )
        ]

    def __str__(self) -> str:
        return f"{self.number}: {self.actor} {self.action} {self.object_type} {self.object_name}"

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly("an audit record is never saved: audit.writing.record writes it")

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly("an audit record is never deleted, but by `manage.py audit --prune`")
