from __future__ import annotations

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    name = "scheduler"
    verbose_name = "Scheduler"

    def ready(self) -> None:
        from django.conf import settings

        from models_registry import ports

        from .ports import ControlSocketScheduler

        ports.register(ControlSocketScheduler(settings.CORRAL_CONTROL_SOCKET))
