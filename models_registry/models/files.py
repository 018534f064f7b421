"""Model files, and what their headers say."""

from __future__ import annotations

from django.db import models
from simple_history.models import HistoricalRecords

from models_registry import validation
from models_registry.models.revised import Revised, Source


class ModelFile(Revised):
    """Weights on disk. For a sharded model `path` is the first shard."""

    path = models.CharField(max_length=1024, unique=True, help_text="Absolute path of the GGUF.")
    mmproj = models.CharField(
        "projector", max_length=1024, blank=True, help_text="Absolute path of the projector GGUF."
    )
    draft = models.CharField(
        "draft model",
        max_length=1024,
        blank=True,
        help_text="Absolute path of a small GGUF of the same vocabulary, which guesses ahead "
        "(--model-draft).",
    )
    size = models.BigIntegerField(default=0, editable=False, help_text="Bytes, all shards.")
    source = models.CharField(max_length=20, choices=Source, default=Source.ADMIN, editable=False)
    missing_since = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Set while the file cannot be found."
    )

    history = HistoricalRecords()

    class Meta:
        ordering = ["path"]

    def __str__(self) -> str:
        return self.path

    def clean(self) -> None:
        validation.check_model_file(self)


class FileMetadata(models.Model):
    """What the header of a model file says, read once for each state of the file. Not Revised: what
    runs does not depend on it."""

    model_file = models.OneToOneField(
        ModelFile, on_delete=models.CASCADE, related_name="metadata", primary_key=True
    )
    stamp = models.CharField(max_length=64, help_text="The state of the files that was read.")
    error = models.TextField(blank=True, help_text="Why the header cannot be read.")
    name = models.CharField(max_length=250, blank=True)
    architecture = models.CharField(max_length=64, blank=True, db_index=True)
    parameters = models.BigIntegerField(null=True)
    weights = models.BigIntegerField(null=True, help_text="Bytes of its tensors.")
    quantisation = models.CharField(max_length=32, blank=True, db_index=True)
    context_length = models.BigIntegerField(null=True, help_text="Tokens it was trained for.")
    layers = models.PositiveIntegerField(null=True)
    embedding_length = models.PositiveIntegerField(null=True)
    vocabulary = models.PositiveIntegerField(null=True, help_text="Tokens it knows.")
    tokenizer = models.CharField(max_length=32, blank=True, help_text="Its kind: gpt2, llama, ….")
    input_modalities = models.JSONField(default=list)
    output_modalities = models.JSONField(default=list)
    chat_template = models.TextField(blank=True, help_text="At most 64 KiB of it.")
    licence = models.CharField(max_length=250, blank=True)
    read_at = models.DateTimeField(auto_now=True, db_index=True)

    class Meta:
        verbose_name_plural = "file metadata"

    def __str__(self) -> str:
        return f"{self.name or self.architecture or 'unread'} ({self.quantisation})"
