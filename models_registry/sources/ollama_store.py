"""Ollama's own store, so that what it has pulled need not be downloaded again.

    manifests/<registry>/<namespace>/<model>/<tag>    JSON: layers by kind and digest
    blobs/sha256-<64 hex>                             the layers' contents

A model has the name that Ollama shows: `llama3:8b`, `someone/model:tag`, `hf.co/user/repo:Q4_K_M`;
without its tag when that is `latest`. Its parameters become engine options where they mean the
same (ollama_params.py); what else there is, templates and system prompts, is noted.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from models_registry.errors import ModelsFolderMissing
from models_registry.model_paths import files_state
from models_registry.naming import valid_name
from models_registry.sources.found import Contents, FoundModel
from models_registry.sources.hf_cache import OFF
from models_registry.sources.ollama_params import options_of
from models_registry.sources.small_files import small_text
from models_registry.sources.tree import is_text
from models_registry.validation import file_problem

STORES = ("~/.ollama/models", "/usr/share/ollama/.ollama/models")
"""Where Ollama keeps it when a person runs it, and when its installer made it a service."""

REGISTRY, NAMESPACE, TAG = "registry.ollama.ai", "library", "latest"
"""What Ollama leaves out of a name."""

_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_LARGEST = 1 << 20  # bytes of a manifest or of parameters
_KIND = "application/vnd.ollama.image."
_NOT_TAKEN = {
    "template": "its prompt template is not taken: the one in the GGUF counts",
    "prompt": "its prompt template is not taken: the one in the GGUF counts",
    "system": "its system prompt is not taken: clients send their own",
    "messages": "its first messages are not taken: clients send their own",
}


def ollama_store(setting: str, environ: Mapping[str, str]) -> Path | None:
    """The folder that `setting` (CORRAL_OLLAMA_MODELS) means: a path, or `auto` for where Ollama
    itself looks; None when it is off, or `auto` finds none."""
    if not setting or setting.lower() in OFF:
        return None
    if setting.lower() != "auto":
        return Path(setting).expanduser().absolute()
    named = environ.get("OLLAMA_MODELS")
    places = [Path(place).expanduser() for place in ((named,) if named else STORES)]
    return next((place.absolute() for place in places if place.is_dir()), None)


def read_ollama_store(folder: Path) -> Contents:
    """Raises ModelsFolderMissing when there are no manifests to list."""
    contents = Contents()
    manifests = folder / "manifests"
    if not manifests.is_dir() and (folder / "models" / "manifests").is_dir():
        folder, manifests = folder / "models", folder / "models" / "manifests"
    try:
        found = sorted(_manifests(str(manifests), (), contents))
    except OSError as error:
        raise ModelsFolderMissing(
            f"Ollama's store {folder} cannot be listed ({error.strerror}): "
            "mount it, or correct CORRAL_OLLAMA_MODELS (--ollama-models)"
        ) from error
    for parts, path in found:
        try:
            manifest = json.loads(small_text(path, _LARGEST))
            _add(contents, folder, parts, manifest)
        except OSError as error:
            contents.complain(path, f"cannot be read ({error.strerror})")
        except RecursionError:
            contents.complain(path, "is nested too deep to be a manifest")
        except ValueError as error:  # broken JSON is one, a sentence of ours another
            contents.complain(path, f"is no manifest of Ollama's ({error})")
    return contents


def _manifests(
    folder: str, parts: tuple[str, ...], contents: Contents
) -> Iterator[tuple[tuple[str, ...], str]]:
    """(registry, namespace, model, tag) and the path of each. Raises OSError for the root only."""
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.path) for entry in entries]
    except OSError as error:
        if not parts:
            raise
        if len(parts) < 4:
            contents.complain(folder, f"cannot be listed ({error.strerror})")
        return
    for name, path in found:
        if name.startswith("."):
            continue
        if len(parts) == 3:
            yield (*parts, name), path
        elif Path(path).is_dir():
            yield from _manifests(path, (*parts, name), contents)


def shown_name(registry: str, namespace: str, model: str, tag: str) -> str:
    """The name by which Ollama shows it."""
    if registry != REGISTRY:
        return f"{registry}/{namespace}/{model}:{tag}"
    return f"{model}:{tag}" if namespace == NAMESPACE else f"{namespace}/{model}:{tag}"


def _add(contents: Contents, store: Path, parts: tuple[str, ...], manifest: Any) -> None:
    """Raises ValueError when the manifest names no model that the engine could read."""
    layers = _layers(manifest)
    models = [digest for kind, digest in layers if kind == "model"]
    if len(models) != 1:
        raise ValueError(f"it names {len(models)} GGUF models, not one")
    if any(kind == "adapter" for kind, _ in layers):
        raise ValueError("it needs a LoRA adapter, which presets do not take")
    path = _blob(store, models[0])
    if not is_text(path):
        raise ValueError("its store has a path that is not valid UTF-8")
    if problem := file_problem(path):
        contents.complain(path, f"of {shown_name(*parts)}: {problem}")
        return
    projectors = [_blob(store, digest) for kind, digest in layers if kind == "projector"]
    params, notes = _options(store, layers)
    state = files_state(path, *projectors[:1])
    name = shown_name(*parts)
    model = FoundModel(
        name=valid_name(name),
        path=path,
        mmproj=projectors[0] if projectors else "",
        size=state.size,
        aliases=(valid_name(name.removesuffix(f":{TAG}")),) if parts[3] == TAG else (),
        options=params,
        notes=tuple(notes),
        stamp=state.stamp,
    )
    contents.add(model, state)


def _layers(manifest: Any) -> list[tuple[str, str]]:
    """(kind, hexadecimal digest) of each. Raises ValueError."""
    layers = manifest.get("layers") if isinstance(manifest, dict) else None
    if not isinstance(layers, list):
        raise ValueError("it has no list of layers")
    found = []
    for layer in layers:
        kind, digest = _texts(layer)
        match = _DIGEST.fullmatch(digest)
        if match is None:
            raise ValueError("a layer has no sha256 digest")
        found.append((kind.removeprefix(_KIND), match[1]))
    return found


def _texts(layer: Any) -> tuple[str, str]:
    values = layer if isinstance(layer, dict) else {}
    return str(values.get("mediaType", "")), str(values.get("digest", ""))


def _blob(store: Path, digest: str) -> str:
    """Old versions of Ollama wrote a colon."""
    old = store / "blobs" / f"sha256:{digest}"
    return str(old if old.exists() else store / "blobs" / f"sha256-{digest}")


def _options(store: Path, layers: list[tuple[str, str]]) -> tuple[dict[str, str], list[str]]:
    """The parameters that can be taken, and what is not. Raises OSError or ValueError."""
    kinds = {kind for kind, _ in layers}
    notes = sorted({words for kind, words in _NOT_TAKEN.items() if kind in kinds})
    options: dict[str, str] = {}
    for digest in (digest for kind, digest in layers if kind == "params"):
        params = json.loads(small_text(_blob(store, digest), _LARGEST))
        if not isinstance(params, dict):
            raise ValueError("its parameters are no object")
        taken, not_taken = options_of(params)
        options |= taken
        notes += not_taken
    return options, notes
