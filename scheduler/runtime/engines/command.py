"""Any server that answers OpenAI's API, run by its own command line under a runner of ours;
llama-cpp-python's server among them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from models_registry.engines import EngineKind, names, run_words
from models_registry.errors import OptionError
from models_registry.launch import LaunchSpec
from models_registry.python_server import missing
from scheduler.core.sizes import NOTHING_GRANTED, Grant

from . import http
from .base import CannotStart, Command
from .llama_server import inherited_environment

RUNNER = Path(__file__).parents[1] / "engine_runner.py"

_NOT_THERE = frozenset({404, 405, 501})
"""What a server answers to a path that it does not have."""


class CommandEngine:
    """What it is told of its grant is nothing: a command line says for itself what it takes."""

    tells_slots = False

    def __init__(self, inherited: Mapping[str, str] = os.environ) -> None:
        self._inherited = inherited

    def command(self, spec: LaunchSpec, address: str, grant: Grant = NOTHING_GRANTED) -> Command:
        if spec.engine.kind == EngineKind.LLAMA_CPP_PYTHON and (problem := missing()):
            raise CannotStart(problem)
        try:
            words = run_words(spec.engine, model=spec.model_path, preset=spec.preset)
        except OptionError as error:
            raise CannotStart(f"the {error.option} cannot be taken: {error.message}") from error
        env = {**inherited_environment(self._inherited), **spec.env}
        if shutil.which(words[0], path=env.get("PATH")) is None:
            raise CannotStart(f"there is no program {words[0]}: install it, or write its path")
        by_socket = any(names(word, "socket") for word in words)
        wanted = {"argv": words, "health": spec.engine.health_path}
        told = msgspec.json.encode(wanted | ({"socket": address} if by_socket else {})).decode()
        return Command((sys.executable, "-I", str(RUNNER), told), env, shown=words, has_runner=True)

    def address(self, payload: Mapping[str, Any]) -> str:
        return str(payload.get("address", ""))

    async def heeds_exit(self, address: str) -> bool:
        return True  # its runner does, from its start on

    async def wake(self, address: str) -> None:
        raise AssertionError("it never sleeps")

    async def busy_slots(self, address: str) -> int | None:
        return None

    async def is_alive(self, address: str) -> bool | None:
        """By any path: one that it does not have is answered as well."""
        return await http.answers(address, "/health")

    async def gets_on(self, address: str) -> bool | None:
        return None  # it tells of no slots

    async def probe(self, spec: LaunchSpec, address: str) -> str:
        """By the first of OpenAI's endpoints that it has."""
        model, answer = spec.engine.model, ""
        asked: dict[str, dict[str, object]] = {
            "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hello"}]},
            "/v1/completions": {"prompt": "Hello"},
            "/v1/embeddings": {"input": "Hello"},
        }
        for path, body in asked.items():
            if not path.endswith("embeddings"):
                body["max_tokens"] = 1
            status, answer = await http.post(address, path, {"model": model, **body})
            if status == 200:
                return ""
            if status not in _NOT_THERE:
                break
        return answer

    async def is_asleep(self, address: str) -> bool:
        return False

    def progress(self, payload: Mapping[str, Any]) -> float | None:
        return None

    def meta(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        return {}
