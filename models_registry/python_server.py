"""llama-cpp-python's own server: its options by llama-server's names, and whether it is there."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from models_registry.errors import OptionError

NEEDS = ("llama_cpp", "fastapi", "pydantic_settings", "sse_starlette", "starlette_context")
"""Modules; those beside the first come with its extra `server`."""
HEALTH = "/v1/models"
PROGRAM = Path(__file__).with_name("python_server_program.py")
CHAT_FORMAT = "chat-format"
"""The one option that llama-server has not: a line of the extra options."""

_FLAGS = {
    "ctx-size": "--n_ctx",
    "n-gpu-layers": "--n_gpu_layers",
    "threads": "--n_threads",
    "batch-size": "--n_batch",
    "ubatch-size": "--n_ubatch",
    "flash-attn": "--flash_attn",
    "embeddings": "--embedding",
    CHAT_FORMAT: "--chat_format",
}
_WORDS = {"on": "true", "off": "false", "auto": "-1", "all": "-1"}


def missing() -> str:
    """Why it cannot be run, and what to do; empty when it can. Nothing is imported for it."""
    absent = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if not absent:
        return ""
    return (
        f"llama-cpp-python's server is not installed ({', '.join(absent)}): run "
        "`pip install 'llama-cpp-python[server]'` in Corral's environment"
    )


def checked(options: Mapping[str, str]) -> dict[str, str]:
    """Raises OptionError for a value that it does not take."""
    if options.get("flash-attn") == "auto":
        raise OptionError("flash-attn", "this engine takes on or off")
    if not re.fullmatch(r"[A-Za-z0-9._-]{0,64}", options.get(CHAT_FORMAT, "")):
        raise OptionError(CHAT_FORMAT, "takes a format's name: chatml, llama-3 …")
    return dict(options)


def words(options: Mapping[str, str], *, model: str, preset: str) -> tuple[str, ...]:
    """Its command line; ${port} stands where it listens."""
    argv = [sys.executable, "-I", str(PROGRAM)]
    argv += ["--host", "127.0.0.1", "--port", "${port}", "--model", model, "--model_alias", preset]
    argv += ["--interrupt_requests", "false"]
    for key, value in sorted(options.items()):
        argv += [_FLAGS[key], _WORDS.get(value, value) if key != CHAT_FORMAT else value]
    return tuple(argv)
