from __future__ import annotations

from typing import Any

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    name = "scheduler"
    verbose_name = "Scheduler"

    def ready(self) -> None:
        from django.conf import settings
        from django.db.models.signals import post_delete, post_save

        from models_registry import ports
        from models_registry.audit.watching import watch

        from .models import DeviceLimit
        from .ports import ControlSocketScheduler

        for signal in (post_save, post_delete):
            signal.connect(_limits_changed, sender=DeviceLimit, dispatch_uid="scheduler.limits")
        watch(DeviceLimit, "device limit")
        ports.register(ControlSocketScheduler(settings.CORRAL_CONTROL_SOCKET))


def _limits_changed(**_: Any) -> None:
    """The scheduler reads them with the registry's rows."""
    from models_registry.revision import bump

    bump()
