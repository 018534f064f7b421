"""Models that are fetched."""

from __future__ import annotations

from django.db import models


class Download(models.Model):
    """One model that is fetched: what was asked for, how far it is, how it ended."""

    class Kind(models.TextChoices):
        HUB = "hub", "Hugging Face"
        URL = "url", "a URL"
        OLLAMA = "ollama", "Ollama's registry"

    class State(models.TextChoices):
        QUEUED = "queued", "waits for its turn"
        RUNNING = "running", "is fetched"
        PAUSED = "paused", "paused"
        DONE = "done", "done"
        FAILED = "failed", "failed"
        CANCELLED = "cancelled", "cancelled"

    UNFINISHED = (State.QUEUED, State.RUNNING, State.PAUSED)

    kind = models.CharField(max_length=10, choices=Kind, default=Kind.HUB)
    target = models.CharField(
        max_length=1024, help_text="user/repo[:quant], a URL, or a name of Ollama's registry."
    )
    revision = models.CharField(max_length=200, blank=True, help_text="Branch, tag or commit.")
    commit = models.CharField(
        max_length=64, blank=True, help_text="What the revision meant when it was looked up."
    )
    name = models.CharField(
        max_length=200, blank=True, db_index=True, help_text="The model's name, once it is there."
    )
    load = models.BooleanField(default=False, help_text="Load it as soon as it is there.")
    sidecars = models.JSONField(
        default=list, help_text="Companions to fetch as well: mmproj, draft."
    )
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    wanted = models.CharField(
        max_length=10,
        choices=State,
        default=State.RUNNING,
        help_text="What a person last asked for: running, paused or cancelled.",
    )
    files = models.JSONField(
        default=list,
        help_text="Each file: path in the repository, bytes, checksum, bytes done, where it lies.",
    )
    bytes_done = models.BigIntegerField(default=0)
    bytes_total = models.BigIntegerField(null=True)
    bytes_per_second = models.FloatField(null=True)
    error = models.TextField(blank=True)
    attempts = models.PositiveIntegerField(default=0)
    asked_by = models.CharField(max_length=250, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True, help_text="When its job last said that it lives.")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "target", "revision"],
                condition=models.Q(state__in=["queued", "running", "paused"]),
                name="download_is_asked_for_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.target}: {self.get_state_display()}"
