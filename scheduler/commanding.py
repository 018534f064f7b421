"""Commands that ask the scheduler, from a terminal on its machine: no key is needed there."""

from __future__ import annotations

from typing import Any

from models_registry.operating import NO_SCHEDULER, OperatorCommand

from .protocol import Refused


class SchedulerCommand(OperatorCommand):
    """`ask` does it, and may raise Refused as well."""

    def work(self, options: dict[str, Any]) -> None:
        try:
            self.ask(options)
        except Refused as refusal:
            gone = refusal.code == "scheduler_unavailable"
            self.decline(NO_SCHEDULER if gone else refusal.message)

    def ask(self, options: dict[str, Any]) -> None:
        raise NotImplementedError
