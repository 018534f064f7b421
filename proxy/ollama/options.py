"""Ollama's `options` as parameters of llama-server's requests. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.protocol import Refused

_SAMPLING = {
    "num_predict": ("integer", "max_tokens"),
    "num_keep": ("integer", "n_keep"),
    "temperature": ("float32", "temperature"),
    "top_k": ("integer", "top_k"),
    "top_p": ("float32", "top_p"),
    "min_p": ("float32", "min_p"),
    "typical_p": ("float32", "typical_p"),
    "repeat_last_n": ("integer", "repeat_last_n"),
    "repeat_penalty": ("float32", "repeat_penalty"),
    "presence_penalty": ("float32", "presence_penalty"),
    "frequency_penalty": ("float32", "frequency_penalty"),
    "mirostat": ("integer", "mirostat"),
    "mirostat_tau": ("float32", "mirostat_tau"),
    "mirostat_eta": ("float32", "mirostat_eta"),
    "seed": ("integer", "seed"),
    "stop": ("array", "stop"),
}
"""By Ollama's name: of which type it is there, and what llama-server calls it."""

_AT_LOAD = {
    "num_ctx": "integer",
    "num_batch": "integer",
    "num_gpu": "integer",
    "main_gpu": "integer",
    "num_thread": "integer",
    "draft_num_predict": "integer",
    "use_mmap": "boolean",
    "use_mlock": "boolean",
    "numa": "boolean",
    "low_vram": "boolean",
}
"""What would load the model anew: the preset says it, for everybody."""

_MOST = 2**31 - 1
_LARGEST_SEED = 2**64
_MOST_NAMED = 20
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Options:
    """`sampling` by llama-server's names; `ignored` by Ollama's, for the header that tells it."""

    sampling: Mapping[str, Any]
    ignored: tuple[str, ...] = ()

    def header(self) -> bytes:
        named = [name for name in self.ignored if _NAME.fullmatch(name)][:_MOST_NAMED]
        rest = len(self.ignored) - len(named)
        return ", ".join([*named, *([f"+{rest}"] if rest else [])]).encode()


def options_of(options: Mapping[str, Any] | None) -> Options:
    """What is null counts as left out. Raises Refused for a value of a wrong type."""
    sampling: dict[str, Any] = {}
    ignored: list[str] = []
    for name, value in (options or {}).items():
        if value is None:
            continue
        if name in _SAMPLING:
            kind, known_as = _SAMPLING[name]
            taken = _taken(name, kind, value)
            if name == "repeat_last_n" and taken < 0:  # the whole context there, an error here
                ignored.append(name)
            elif not _means_the_default(name, taken):
                sampling[known_as] = taken
            continue
        if name in _AT_LOAD:
            _taken(name, _AT_LOAD[name], value)
        ignored.append(name)
    return Options(sampling, tuple(ignored))


def _means_the_default(name: str, value: Any) -> bool:
    """As long as the preset allows; any seed."""
    return (name == "num_predict" and value < 0) or (name == "seed" and value == -1)


def _taken(name: str, kind: str, value: Any) -> Any:
    wrong = Refused("invalid_request", f'option "{name}" must be of type {kind}')
    if kind == "boolean":
        if not isinstance(value, bool):
            raise wrong
        return value
    if kind == "array":
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise wrong
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong
    if not abs(value) <= (_LARGEST_SEED if name == "seed" else _MOST):  # so is what is no number
        raise Refused("invalid_request", f'option "{name}" is out of range')
    if kind == "integer" and value != int(value):
        raise wrong
    if kind != "integer":
        return value
    return int(value) if name != "seed" or value == -1 else int(value) % 2**32
