"""What is said of models in Ollama's words: tags, ps, show. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import pairwise
from typing import Any

from models_registry.names import LATEST
from models_registry.sources.ollama_params import OPTIONS
from scheduler.protocol import InstanceState

VERSION = "0.33.0"
"""Whose API this is: clients ask whether it is new enough."""
EVER = timedelta(days=365 * 100)
_BLOB = re.compile(r"sha256-([0-9a-f]{64})")
_ARGUMENTS = {f"--{option}": name for name, option in OPTIONS.items()} | {"--temp": "temperature"}
HOST = "Host"

Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Known:
    """What the registry knows of a preset. `capabilities` are in Ollama's words; None where nothing
    is known, and who answers decides."""

    name: str
    path: str = ""
    size: int = 0
    modified: int = 0  # seconds since 1970
    architecture: str = ""
    parameters: int | None = None
    quantisation: str = ""
    context_length: int | None = None
    embedding_length: int | None = None
    layers: int | None = None
    tokenizer: str = ""
    licence: str = ""
    capabilities: tuple[str, ...] | None = None
    arguments: Sequence[str] = ()
    defaults: Mapping[str, Any] | None = None

    @property
    def tagged(self) -> str:
        return self.name if ":" in self.name else f"{self.name}{LATEST}"

    @property
    def digest(self) -> str:
        """Of a file of Ollama's store its own; of others one that changes when the file does."""
        if found := _BLOB.search(self.path):
            return found[1]
        state = f"{self.name if not self.path else self.path}\0{self.size}\0{self.modified}"
        return sha256(state.encode()).hexdigest()

    def details(self) -> Told:
        told: Told = {
            "parent_model": "",
            "format": "gguf" if self.path else "",
            "family": self.architecture,
            "families": [self.architecture] if self.architecture else [],
            "parameter_size": human(self.parameters),
            "quantization_level": self.quantisation,
        }
        figures = {
            "context_length": self.context_length,
            "embedding_length": self.embedding_length,
        }
        return told | {name: figure for name, figure in figures.items() if figure}


def tag(known: Known) -> Told:
    told: Told = {
        "name": known.tagged,
        "model": known.tagged,
        "modified_at": at(known.modified),
        "size": known.size,
        "digest": known.digest,
        "details": known.details(),
    }
    return told if known.capabilities is None else told | {"capabilities": known.capabilities}


def running(known: Known, instance: InstanceState, now: datetime) -> Told:
    takes = instance.actual or instance.held or instance.predicted
    figures = instance.meta.get("meta")
    context = figures.get("n_ctx") if isinstance(figures, dict) else None
    kept = EVER if instance.kept is None else timedelta(seconds=instance.kept)
    return {
        "name": known.tagged,
        "model": known.tagged,
        "size": sum(takes.values()),
        "digest": known.digest,
        "details": known.details(),
        "expires_at": _written(now + min(kept, EVER)),
        "size_vram": sum(size for device, size in takes.items() if device != HOST),
        "context_length": context or instance.context // max(1, instance.parallel),
    }


def shown(known: Known, template: str, *, named: str) -> Told:
    """`named` is what general.basename says, where a client wants its own name back."""
    parameters = dict(parameters_of(known))
    lines = "\n".join(f"{name:<30} {text}" for name, text in parameters.items())
    file = [f"FROM {known.name}", *(f"PARAMETER {n} {text}" for n, text in parameters.items())]
    system = str((known.defaults or {}).get("system", ""))
    if system:
        file.append(f'SYSTEM """{system}"""')
    return {
        "license": known.licence,
        "modelfile": "\n".join(file) + "\n",
        "parameters": lines,
        "template": template,
        "system": system,
        "details": known.details(),
        "model_info": _model_info(known, named),
        "capabilities": known.capabilities or (),
        "modified_at": at(known.modified),
    }


def parameters_of(known: Known) -> Iterable[tuple[str, str]]:
    """As a Modelfile would say them: the options that it is started with, and the requests'
    defaults."""
    found: dict[str, str] = {}
    for name, value in pairwise(known.arguments):
        if name in _ARGUMENTS:
            found[_ARGUMENTS[name]] = value
    for name, default in (known.defaults or {}).items():
        if isinstance(default, int | float | str) and name in OPTIONS:
            found[name] = str(default)
    return sorted(found.items())


def _model_info(known: Known, named: str) -> Told:
    about = known.architecture or "unknown"
    figures = {
        "general.architecture": known.architecture,
        "general.basename": named,
        "general.parameter_count": known.parameters,
        "tokenizer.ggml.model": known.tokenizer,
        f"{about}.context_length": known.context_length,
        f"{about}.embedding_length": known.embedding_length,
        f"{about}.block_count": known.layers,
    }
    return {name: figure for name, figure in figures.items() if figure}


def at(seconds: int) -> str:
    return _written(datetime.fromtimestamp(seconds, UTC))


def _written(when: datetime) -> str:
    return when.isoformat().replace("+00:00", "Z")


def human(count: int | None) -> str:
    """134.52M, 8.0B: as Ollama writes a number of parameters."""
    if not count:
        return ""
    for size, unit, decimals in ((10**9, "B", 1), (10**6, "M", 2), (10**3, "K", 0)):
        if count >= size:
            exact = count % size == 0
            return f"{count / size:.{0 if exact else decimals}f}{unit}"
    return str(count)
