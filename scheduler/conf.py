"""The scheduler's configuration: a frozen value built once from the settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

from scheduler.core.values import Config, VictimPolicy
from scheduler.kv_rule import KvRule


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Everything `runscheduler` needs to know. Times in seconds."""

    planner: Config
    var: Path
    run_folder: Path
    control_socket: Path
    log_folder: Path
    autoload: bool
    stop_timeout_seconds: float
    health_every_seconds: float = 5.0
    """Between two questions whether a loaded child still answers; 0: it is not asked."""
    health_tries: int = 3
    """Questions in a row without an answer after which it counts as hung."""
    step_timeout_seconds: float = 600.0
    """How long one step of a child that works may take; 0: for ever."""
    answer_timeout_seconds: float = 3600.0
    answer_tokens: int = 1024
    """Reserved of a limit of tokens for an answer of which nobody says how long it may be."""
    kv_saves_bytes: int | None = 0
    """Of conversations that are saved when their instance goes: 0: none; None: by the disk."""
    kv_saves: KvRule = field(default_factory=KvRule)
    read_ahead: bool = False
    """Whether files of models that somebody waits for are read into the page cache."""
    event_log: bool = False
    """Whether every event of the planner is written to a file in `log_folder`."""
    trust_trace_context: bool = False
    """Whether clients say of what traces their requests are parts."""


def scheduler_config() -> SchedulerConfig:
    return SchedulerConfig(
        planner=Config(
            models_max=max(0, settings.CORRAL_MODELS_MAX),
            models_max_loading=settings.CORRAL_MODELS_MAX_LOADING,
            queue_limit=settings.CORRAL_QUEUE_LIMIT,
            queue_limit_per_preset=settings.CORRAL_QUEUE_LIMIT_PER_MODEL,
            queue_limit_per_tenant=settings.CORRAL_QUEUE_LIMIT_PER_TENANT,
            queue_wait_seconds=settings.CORRAL_QUEUE_WAIT,
            max_wait_seconds=settings.CORRAL_MAX_WAIT,
            quantum_seconds=settings.CORRAL_QUANTUM,
            min_residency_seconds=settings.CORRAL_MIN_RESIDENCY,
            keep_alive_seconds=settings.CORRAL_MODEL_KEEP_ALIVE,
            oversubscribe=settings.CORRAL_OVERSUBSCRIBE,
            max_priority_jump_seconds=settings.CORRAL_MAX_PRIORITY_JUMP,
            victim_policy=VictimPolicy(settings.CORRAL_VICTIM_POLICY),
            load_stall_seconds=settings.CORRAL_LOAD_STALL,
            measure_wait_seconds=settings.CORRAL_MEASURE_WAIT,
        ),
        var=settings.CORRAL_VAR,
        run_folder=settings.CORRAL_RUN_FOLDER,
        control_socket=settings.CORRAL_CONTROL_SOCKET,
        log_folder=settings.CORRAL_LOG_FOLDER,
        autoload=settings.CORRAL_MODELS_AUTOLOAD,
        stop_timeout_seconds=settings.CORRAL_STOP_TIMEOUT,
        health_every_seconds=settings.CORRAL_HEALTH_EVERY,
        health_tries=settings.CORRAL_HEALTH_TRIES,
        step_timeout_seconds=settings.CORRAL_STEP_TIMEOUT,
        answer_timeout_seconds=settings.CORRAL_ANSWER_TIMEOUT,
        answer_tokens=settings.CORRAL_ANSWER_TOKENS,
        kv_saves_bytes=settings.CORRAL_KV_SAVES,
        kv_saves=settings.CORRAL_KV_RULE,
        read_ahead=settings.CORRAL_READ_AHEAD,
        event_log=settings.CORRAL_EVENT_LOG,
        trust_trace_context=settings.CORRAL_TRUST_TRACE_CONTEXT,
    )
