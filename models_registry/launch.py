"""From the registry's rows to what the scheduler starts: one frozen value per preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """How to run a preset, as the registry was at one revision.

    `argv` are llama-server's arguments without the program and without what the engine adds itself
    (listening, alias, offline). `fingerprint` changes when what would be started changes.
    `problem` is empty, or says why this preset cannot be started and what to do.
    """

    preset: str
    aliases: tuple[str, ...]
    model_path: str
    argv: tuple[str, ...]
    parallel: int
    fingerprint: str
    env: Mapping[str, str] = field(default_factory=dict)
    pinned: bool = False
    load_on_startup: bool = False
    stop_timeout_seconds: float | None = None
    problem: str = ""
