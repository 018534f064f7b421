"""What the storm rages over: a real gateway, its presets, and who may ask."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from models_registry.engine_path import llama_server
from tests.process.running import FAKE
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.tiny_model import broken, tiny_model

MODELS = {"alpha": {"seed": 1}, "beta": {"seed": 2}, "gamma": {"seed": 3}, "slow": SLOW}
FRAGILE = "fragile"
"""The real engine; its file breaks now and then."""
MOCK = "mock"
"""A stand-in child, for what the engine does not do when told."""
PRESETS = (*MODELS, FRAGILE, MOCK)
ONE_AT_A_TIME = ("gamma", "slow", FRAGILE)
"""They have one slot. What else is in a batch moves the last digits of the engine's figures, and so
a greedy choice that is close: only these are asked for texts in which choices are close."""
TENANTS = ("default", "red", "blue")
MODELS_MAX = 2
SILENCE_SECONDS = 180.0
"""No request is without an answer or an error for longer: the limits below, one after another."""
LIMITS = {
    "CORRAL_MAX_WAIT": "2",
    "CORRAL_QUEUE_WAIT": "40",
    "CORRAL_LOAD_STALL": "8",
    "CORRAL_FIRST_BYTE_TIMEOUT": "30",
    "CORRAL_BETWEEN_TOKENS_TIMEOUT": "20",
    "CORRAL_ANSWER_TIMEOUT": "45",
    "CORRAL_STOP_TIMEOUT": "3",
    "CORRAL_QUANTUM": "2",
    "CORRAL_MODEL_KEEP_ALIVE": "4",
    "CORRAL_HEALTH_EVERY": "1",
    "CORRAL_EVENT_LOG": "1",
}
MOODS = (
    "",
    "",
    "--load-seconds 1",
    "--load-seconds 3",
    "--slow-tokens 0.02",
    "--ignore-exit",
    "--ignore-sigterm --chatter",
    "--long-line --print-garbage",
    "--crash-on-request",
    "--crash-after 0.5",
    "--die-while-loading",
    "--load-seconds 0.5 --oom",
    "--exit-code 3",
)
"""What the stand-in may do from its next start on: see tests/process/fake_llama_server.py."""


@dataclass(frozen=True)
class Stage:
    gateway: Gateway
    keys: tuple[str, ...]
    """One of each tenant."""
    admin_key: str
    folder: Path

    def set_mood(self, flags: str) -> None:
        _replace(self.gateway.models_dir / f"{MOCK}.gguf.flags", flags)

    def break_file(self) -> None:
        self._put("broken")

    def mend_file(self) -> None:
        self._put("sound")

    def _put(self, spare: str) -> None:
        """A copy: sound files are links into the tests' cache, which nobody may write to."""
        draft = self.folder / "draft.gguf"
        shutil.copyfile(self.folder / "spare" / f"{spare}.gguf", draft)
        draft.replace(self.gateway.models_dir / f"{FRAGILE}.gguf")


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    """Two web workers, room for two children, a key for each tenant."""
    models = folder / "models"
    tiny_model(models, FRAGILE, seed=6)
    tiny_model(folder / "spare", "sound", seed=6)
    broken(folder / "spare")
    tiny_model(models, MOCK)
    _replace(models / f"{MOCK}.gguf.flags", "")
    args = ["--models-max", str(MODELS_MAX), "-c", "4096"]
    env = LIMITS | {"CORRAL_LLAMA_SERVER": str(_engine(folder))}
    with gateway(
        folder, args=args, env=env, workers=2, models=MODELS, models_dir=models
    ) as running:
        keys = [running.key]
        for tenant in TENANTS[1:]:
            keys.append(_new_key(running, "crowd", "--team", tenant))
        for preset in ONE_AT_A_TIME:
            path = f"/router/api/presets/{preset}"
            edited = running.client.request("PATCH", path, {"parallel": 1}, key=running.admin_key)
            assert edited.status == 200, edited.body
        yield Stage(running, tuple(keys), running.admin_key, folder)


def _new_key(running: Gateway, *arguments: str) -> str:
    made = running.manage("createkey", *arguments)
    assert made.returncode == 0, made.stderr
    return made.stdout.splitlines()[-1]


def _engine(folder: Path) -> Path:
    """The real engine, but for the model file that has flags beside it; measuring (its sockets are
    named m-…) is the real one's always."""
    program = folder / "llama-server"
    program.write_text(
        f"""#!/bin/sh
case "$*" in
    */m-*.sock*) ;;
    *) for word in "$@"; do
        [ -e "$word.flags" ] && exec {sys.executable} {FAKE} "$@"
    done ;;
esac
exec {llama_server()} "$@"
"""
    )
    program.chmod(0o755)
    return program


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)
