"""The presets that run model files, and other names for them."""

from __future__ import annotations

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from simple_history.models import HistoricalRecords

from models_registry import validation
from models_registry.models.engine_columns import Engine, EngineColumns
from models_registry.models.files import ModelFile
from models_registry.models.revised import Revised, Source
from models_registry.models.sharing import Group
from models_registry.options import policy


class Priority(models.TextChoices):
    """The class of a preset's requests, among those that wait."""

    LOW = "low", "low"
    NORMAL = "normal", "normal"
    HIGH = "high", "high"


class PlacementWish(models.TextChoices):
    """What a preset whose placement is open wants, when the best place is not free."""

    BEST = "best", "wait for the best place that the machine could give"
    NOW = "now", "take the best place that is free"


_WAIT = [MinValueValidator(0), MaxValueValidator(policy.LONGEST_WAIT)]
_CONTEXT = [MinValueValidator(policy.LEAST_CONTEXT), MaxValueValidator(policy.MOST_CONTEXT)]


class Preset(EngineColumns, Revised):
    """A named way to run a model. An unset option falls to the layer below."""

    name = models.CharField(
        max_length=200,
        unique=True,
        validators=[validation.validate_name],
        help_text="What a client writes as `model`.",
    )
    model_file = models.ForeignKey(
        ModelFile,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="presets",
        help_text="Needed by llama.cpp's engines; a command may name it as ${model}.",
    )
    source = models.CharField(max_length=20, choices=Source, default=Source.ADMIN, editable=False)
    base = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.RESTRICT,
        related_name="heirs",
        help_text="Another preset whose options and policy count wherever this one sets nothing.",
    )
    group = models.ForeignKey(
        Group, null=True, blank=True, on_delete=models.SET_NULL, related_name="presets"
    )
    tags = models.CharField(
        max_length=500, blank=True, help_text="Words with commas between them, to find it by."
    )
    unlisted = models.BooleanField(
        default=False, help_text="Left out of GET /models; clients may ask for it all the same."
    )
    file_options = models.JSONField(
        default=dict,
        editable=False,
        help_text="What the presets file says of it, by key; replaced when the file is read again.",
    )

    ctx_size = models.PositiveIntegerField(
        "context",
        null=True,
        blank=True,
        help_text="Tokens, shared by the slots; 0: as many as the model knows (--ctx-size).",
    )
    parallel = models.PositiveIntegerField(
        "slots",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Answers at once; further requests wait (--parallel).",
    )
    n_gpu_layers = models.CharField(
        "GPU layers",
        max_length=10,
        blank=True,
        null=True,
        validators=[validation.validate_gpu_layers],
        help_text="Layers kept on the GPU: a number, `auto` or `all` (--n-gpu-layers).",
    )
    threads = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="CPU threads that compute (--threads).",
    )
    batch_size = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Tokens of a prompt read in one step, at most (--batch-size).",
    )
    ubatch_size = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Tokens computed at once: more needs more memory (--ubatch-size).",
    )
    cache_type_k = models.CharField(
        "K cache type",
        max_length=10,
        blank=True,
        null=True,
        help_text="Precision of the stored keys: f16, q8_0 … (--cache-type-k).",
    )
    cache_type_v = models.CharField(
        "V cache type",
        max_length=10,
        blank=True,
        null=True,
        help_text="Precision of the stored values: f16, q8_0 … (--cache-type-v).",
    )
    flash_attn = models.CharField(
        "flash attention",
        max_length=4,
        blank=True,
        null=True,
        choices=[("on", "on"), ("off", "off"), ("auto", "auto")],
        help_text="Needed for a quantised V cache (--flash-attn).",
    )
    embeddings = models.BooleanField(
        null=True, blank=True, help_text="Serve embeddings instead of text (--embeddings)."
    )
    extra_options = models.TextField(
        blank=True,
        help_text="One `key = value` a line: any other llama-server option, without its dashes.",
    )
    environment = models.TextField(
        blank=True, help_text="One `NAME=value` a line: the child's own environment variables."
    )
    request_strip = models.TextField(
        "strip parameters",
        blank=True,
        help_text="Names with commas between them: taken out of every request's body.",
    )
    request_set = models.JSONField(
        "set parameters",
        default=dict,
        blank=True,
        help_text="An object: its values replace those of every request's body.",
    )
    request_defaults = models.JSONField(
        "default parameters",
        default=dict,
        blank=True,
        help_text="An object: its values count where a request's body has none.",
    )

    placement = models.CharField(
        max_length=4,
        choices=PlacementWish,
        default=PlacementWish.BEST,
        help_text="Where it goes while GPU layers is unset or `auto`: one device, several, some "
        "layers on the host, the host alone. Who waits for the best lets others make way first; "
        "what is free now may be a slower place.",
    )
    context_cap = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[
            MinValueValidator(policy.LEAST_CONTEXT),
            MaxValueValidator(policy.MOST_CONTEXT),
        ],
        help_text="Tokens for each slot, at most, while context is unset: it is then as large as "
        "the memory allows, up to this and to what the model was trained for. Unset: the gateway's "
        "own.",
    )
    replicas = models.PositiveIntegerField(
        default=1,
        validators=[MinValueValidator(1), MaxValueValidator(policy.MOST_REPLICAS)],
        help_text="Instances of it at once, at most. A further one starts when all slots answer "
        "and requests wait, nothing else waits to be loaded, and there is room without evicting "
        "anything.",
    )

    pinned = models.BooleanField(default=False, help_text="Never evicted for another model.")
    load_on_startup = models.BooleanField(
        null=True, blank=True, help_text="Loaded when Corral starts, if there is room."
    )
    stop_timeout = models.FloatField(
        null=True,
        blank=True,
        validators=_WAIT,
        help_text="Seconds from asking the child to exit to killing it. Unset: the gateway's own.",
    )
    priority = models.CharField(
        max_length=6,
        choices=Priority,
        default=Priority.NORMAL,
        help_text="When several models wait: requests for a high one count as older than they are, "
        "for a low one as younger, within a bound, so that every one gets its turn.",
    )
    max_wait = models.FloatField(
        null=True,
        blank=True,
        validators=_WAIT,
        help_text="Seconds. Once it is next to be loaded, it waits so long, at most, until a busy "
        "model takes no new requests for its sake. Unset: the gateway's own.",
    )
    queue_limit = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MaxValueValidator(policy.MOST_WAITERS)],
        help_text="Requests that may wait for it at once; one more is refused (429). 0: as many as "
        "the whole queue takes. Unset: the gateway's own.",
    )
    min_residency = models.FloatField(
        null=True,
        blank=True,
        validators=_WAIT,
        help_text="Seconds. Once loaded, it makes way for no other model before that: against "
        "swapping to and fro. At most max wait. Unset: the gateway's own.",
    )
    keep_alive = models.FloatField(
        null=True,
        blank=True,
        validators=[policy.validate_keep_alive],
        help_text="Seconds. Without a request for so long, its process ends and all its memory is "
        "free. 0: as soon as it is idle; -1: never for being idle. It may go earlier when another "
        "model needs the room, unless pinned. Unset: the gateway's own.",
    )
    sleep_idle = models.PositiveIntegerField(
        "sleep when idle",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(int(policy.LONGEST_IDLE))],
        help_text="Seconds. Without a request for so long, the process stays and gives back the "
        "model's memory; the next request loads it again (--sleep-idle-seconds). Less than keep "
        "alive, or it never comes to it. Not while pinned. Unset: it does not sleep.",
    )
    readiness_probe = models.BooleanField(
        default=False,
        help_text="It must generate one token (or one embedding) before it counts as loaded: a "
        "model that loads and cannot answer is then a failed load, not a failed request.",
    )
    version = models.PositiveIntegerField(
        default=0, editable=False, help_text="Raised by every save: who edits says what was seen."
    )

    history = HistoricalRecords()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(priority__in=Priority.values), name="preset_priority_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(placement__in=PlacementWish.values),
                name="preset_placement_is_known",
            ),
            models.CheckConstraint(
                condition=models.Q(engine__in=Engine.values), name="preset_engine_is_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def model_path(self) -> str:
        """Empty without a file."""
        return self.model_file.path if self.model_file is not None else ""

    @property
    def files(self) -> tuple[str, str, str]:
        """Paths of the model, its projector and its draft model; empty where there is none."""
        row = self.model_file
        return (row.path, row.mmproj, row.draft) if row is not None else ("", "", "")

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.version += 1
        if kwargs.get("update_fields") is not None:
            kwargs["update_fields"] = {*kwargs["update_fields"], "version"}
        super().save(*args, **kwargs)

    def clean(self) -> None:
        validation.check_preset(self)


class Alias(Revised):
    """Another name under which clients may ask for a preset."""

    name = models.CharField(
        max_length=200,
        unique=True,
        validators=[validation.validate_alias_name],
        help_text="With * at its end all names that begin so, the longest beginning first; * alone "
        "makes the preset the default: for names that nobody has, and requests that name no model.",
    )
    preset = models.ForeignKey(Preset, on_delete=models.CASCADE, related_name="aliases")
    from_file = models.BooleanField(
        default=False, editable=False, help_text="Named by the presets file or by discovery."
    )
    request_set = models.JSONField(
        "set parameters",
        default=dict,
        blank=True,
        help_text="An object: its values replace those of a body that asks by this name.",
    )

    history = HistoricalRecords()

    class Meta:
        verbose_name_plural = "aliases"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        validation.check_alias(self)
