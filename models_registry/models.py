"""What can run: model files, the presets that run them, and other names for presets."""

from __future__ import annotations

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, transaction
from simple_history.models import HistoricalRecords

from models_registry import policy, validation


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


class ModelFile(Revised):
    """Weights on disk. For a sharded model `path` is the first shard."""

    path = models.CharField(max_length=1024, unique=True, help_text="Absolute path of the GGUF.")
    mmproj = models.CharField(
        "projector", max_length=1024, blank=True, help_text="Absolute path of the projector GGUF."
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


class Preset(Revised):
    """A named way to run a model file. An unset option falls to the layer below."""

    name = models.CharField(
        max_length=200,
        unique=True,
        validators=[validation.validate_name],
        help_text="What a client writes as `model`.",
    )
    model_file = models.ForeignKey(ModelFile, on_delete=models.CASCADE, related_name="presets")
    source = models.CharField(max_length=20, choices=Source, default=Source.ADMIN, editable=False)

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
        default=False, help_text="Loaded when Corral starts, if there is room."
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
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.version += 1
        if kwargs.get("update_fields") is not None:
            kwargs["update_fields"] = {*kwargs["update_fields"], "version"}
        super().save(*args, **kwargs)

    def clean(self) -> None:
        validation.check_preset(self)


class Alias(Revised):
    """Another name under which clients may ask for a preset."""

    name = models.CharField(max_length=200, unique=True, validators=[validation.validate_name])
    preset = models.ForeignKey(Preset, on_delete=models.CASCADE, related_name="aliases")

    history = HistoricalRecords()

    class Meta:
        verbose_name_plural = "aliases"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        validation.check_alias(self)


class RegistryRevision(models.Model):
    """One row: raised in the transaction of every change above, so that readers see what is new."""

    number = models.BigIntegerField(default=0)
    demo_registered = models.BooleanField(
        default=False, help_text="The demo was registered once; deleted, it does not come back."
    )

    def __str__(self) -> str:
        return str(self.number)


class Measurement(models.Model):
    """What an instance takes on each device, by the memory fingerprint of its options and files.

    One row per fingerprint, whichever presets share it. Written by the measure job and by whoever
    orders one (models_registry/measurements.py); nobody edits it.
    """

    class State(models.TextChoices):
        PENDING = "pending", "waiting to be measured"
        MEASURED = "measured", "measured"
        FAILED = "failed", "failed"
        UNREADABLE = "unreadable", "its header cannot be read"

    fingerprint = models.CharField(max_length=64, unique=True)
    preset = models.CharField(max_length=200, help_text="The preset it was ordered for.")
    state = models.CharField(max_length=10, choices=State, default=State.PENDING)
    shape = models.JSONField(
        null=True, help_text="What it takes at each context, wherever it may be put."
    )
    estimated = models.BooleanField(
        default=False, help_text="The shape is by the header alone: measuring failed."
    )
    devices = models.JSONField(
        default=list,
        help_text="Bytes on each device at the smallest context: model, context, compute; of the "
        "model, its weights alone.",
    )
    error = models.TextField(blank=True)
    engine = models.CharField("engine version", max_length=250, blank=True)
    way = models.CharField(
        "how", max_length=20, blank=True, help_text="docs/measuring.md names the ways."
    )
    seconds = models.FloatField(null=True, help_text="How long measuring took.")
    attempts = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    ordered_at = models.DateTimeField(help_text="When it was last put on the queue.")
    started_at = models.DateTimeField(null=True, help_text="Set while a job works on it.")
    measured_at = models.DateTimeField(null=True, help_text="When it last succeeded or failed.")
    used_at = models.DateTimeField(help_text="When a preset last had this fingerprint.")

    class Meta:
        ordering = ["preset", "-id"]

    def __str__(self) -> str:
        return f"{self.preset}: {self.get_state_display()}"
