"""Rows of the registry with sensible defaults, a stand-in engine, and a stand-in scheduler."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from models_registry import ports
from models_registry.launch import LaunchSpec
from models_registry.models import ModelFile, Preset
from models_registry.ports import (
    FitAnswer,
    Fitting,
    PresetStatus,
    SchedulerUnavailable,
    TrialNews,
)

HELP = Path(__file__).parents[1] / "unit" / "registry" / "help-0.3.36.txt"


def stand_in_engine(folder: Path) -> str:
    """A program that says what a real llama-server says to --help."""
    program = folder / "llama-server"
    program.write_text(f"#!/bin/sh\nexec cat '{HELP}'\n")
    program.chmod(0o755)
    return str(program)


def use_stand_in_engine(settings: Any, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Also shuts out what the environment of whoever runs the tests would add."""
    for name in os.environ:
        if name.startswith("LLAMA_ARG_"):
            monkeypatch.delenv(name)
    settings.CORRAL_LLAMA_SERVER = stand_in_engine(folder)
    settings.CORRAL_COMMAND_LINE = {}


def gguf(path: Path, size: int = 4) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF".ljust(size, b"\0"))
    return path


def make_model_file(path: Path, **fields: Any) -> ModelFile:
    return ModelFile.objects.create(path=str(gguf(path)), size=4, **fields)


def make_preset(name: str, model_file: ModelFile, **fields: Any) -> Preset:
    return Preset.objects.create(name=name, model_file=model_file, **fields)


FITS = FitAnswer("first", False, Fitting("host", context=4096), Fitting("host", context=4096))


@dataclass
class FakeScheduler:
    """Answers as it is told, and keeps what it was asked."""

    answer: dict[str, PresetStatus] = field(default_factory=dict)
    refuses: Exception | None = None
    loaded: bool = True
    used: dict[str, datetime] = field(default_factory=dict)
    fits: FitAnswer = FITS
    has: tuple[str, ...] = ("Host",)
    trial: list[TrialNews] = field(default_factory=list)
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def _ask(self, *question: Any) -> None:
        self.asked.append(question)
        if self.refuses is not None:
            raise self.refuses

    def load(self, preset: str, *, wait: bool = False) -> bool:
        self._ask("load", preset)
        return wait

    def unload(self, preset: str, *, force: bool = False) -> bool:
        self._ask("unload", preset, force)
        return self.loaded

    def apply(self, preset: str) -> None:
        self._ask("apply", preset)

    def measure(self, preset: str) -> None:
        self._ask("measure", preset)

    def command_line(self, preset: str, argv: Sequence[str]) -> tuple[str, ...]:
        """Asks nobody, as the real one."""
        return ("llama-server", *argv, "--alias", preset)

    def reload(self, revision: int) -> None:
        self._ask("reload", revision)

    def fit(self, preset: str) -> FitAnswer:
        self._ask("fit", preset)
        return self.fits

    def fit_edited(self, spec: LaunchSpec, *, ladders: bool = False) -> FitAnswer:
        self._ask("fit_edited", spec)
        return self.fits

    def tried(self, spec: LaunchSpec) -> AsyncGenerator[TrialNews]:
        self._ask("tried", spec)
        return self._tell_trial()

    async def _tell_trial(self) -> AsyncGenerator[TrialNews]:
        try:
            for news in self.trial:
                yield news
        finally:
            self.asked.append(("trial closed",))

    def devices(self) -> tuple[str, ...]:
        self._ask("devices")
        return self.has

    def statuses(self) -> dict[str, PresetStatus]:
        self._ask("statuses")
        return self.answer

    def last_used(self, presets: Collection[str]) -> dict[str, datetime]:
        return {name: at for name, at in self.used.items() if name in presets}

    def times(self, question: str) -> int:
        return sum(asked[0] == question for asked in self.asked)


def use_scheduler(monkeypatch: pytest.MonkeyPatch, scheduler: FakeScheduler) -> FakeScheduler:
    """In place of the registered one, until the test ends."""
    monkeypatch.setattr(ports, "_scheduler", scheduler)
    return scheduler


def away() -> FakeScheduler:
    return FakeScheduler(refuses=SchedulerUnavailable("nobody listens on <control.sock>"))
