"""The scheduler's configuration: a frozen value built once from the settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from scheduler.core.values import Config


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


def scheduler_config() -> SchedulerConfig:
    return SchedulerConfig(
        planner=Config(
            models_max=max(0, settings.CORRAL_MODELS_MAX),
            models_max_loading=settings.CORRAL_MODELS_MAX_LOADING,
            queue_limit=settings.CORRAL_QUEUE_LIMIT,
            queue_wait_seconds=settings.CORRAL_QUEUE_WAIT,
            load_stall_seconds=settings.CORRAL_LOAD_STALL,
        ),
        var=settings.CORRAL_VAR,
        run_folder=settings.CORRAL_RUN_FOLDER,
        control_socket=settings.CORRAL_CONTROL_SOCKET,
        log_folder=settings.CORRAL_LOG_FOLDER,
        autoload=settings.CORRAL_MODELS_AUTOLOAD,
        stop_timeout_seconds=settings.CORRAL_STOP_TIMEOUT,
    )
