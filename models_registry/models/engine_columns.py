"""The columns of a preset that say which engine runs it, and how."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from models_registry import engines
from models_registry.options import policy


class Engine(models.TextChoices):
    LLAMA_SERVER = engines.EngineKind.LLAMA_SERVER.value, "llama.cpp's own server"
    LLAMA_CPP_PYTHON = engines.EngineKind.LLAMA_CPP_PYTHON.value, "llama-cpp-python's server"
    COMMAND = engines.EngineKind.COMMAND.value, "a command line"
    UPSTREAM = engines.EngineKind.UPSTREAM.value, "a remote server"


def _time_out(told: str) -> models.FloatField[float | None, float | None]:
    limits = [MinValueValidator(policy.LEAST_TIME_OUT), MaxValueValidator(policy.LONGEST_WAIT)]
    return models.FloatField(
        null=True,
        blank=True,
        validators=limits,
        help_text=f"Seconds. {told} Unset: the gateway's own.",
    )


class EngineColumns(models.Model):
    engine = models.CharField(
        max_length=20,
        choices=Engine,
        default=Engine.LLAMA_SERVER,
        help_text="What answers for this preset.",
    )
    command_line = models.TextField(
        blank=True,
        max_length=engines.LONGEST_COMMAND,
        help_text="The program and its arguments, without a shell. ${port} or ${socket} is where "
        "it listens, ${model} the model file's path, ${preset} this preset's name.",
    )
    health_path = models.CharField(
        max_length=200,
        blank=True,
        help_text=f"What answers 200 once the command can serve. Empty: {engines.HEALTH}.",
    )
    declared_memory = models.JSONField(
        default=dict,
        blank=True,
        help_text='MiB by device, as {"Host": 2048, "CUDA0": 16384}: what counts for an engine '
        "that cannot be measured, until it has run.",
    )
    upstream_url = models.CharField(
        "upstream URL",
        max_length=500,
        blank=True,
        help_text="As clients of OpenAI take their base URL: https://host:port/v1.",
    )
    upstream_model = models.CharField(
        max_length=200,
        blank=True,
        help_text="What the remote server calls the model. Empty: this preset's name.",
    )
    upstream_key = models.CharField(
        "upstream key",
        max_length=32,
        blank=True,
        editable=False,
        help_text="The reference of a kept secret: see models_registry.kept_secrets.",
    )
    connect_timeout = _time_out("To reach the engine, at most.")
    first_byte_timeout = _time_out("From the request to the first byte of its answer, at most.")
    idle_timeout = _time_out("Between two pieces of an answer, at most.")
    answer_timeout = _time_out("For a whole answer, at most.")

    class Meta:
        abstract = True
