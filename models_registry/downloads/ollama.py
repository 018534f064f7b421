"""Models of Ollama's registry: the manifest, and the blobs that are GGUF files."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

from models_registry.downloads.addresses import Rules
from models_registry.downloads.places import part_and_lock
from models_registry.downloads.planned import Plan, PlannedFile, Refused
from models_registry.downloads.targets import OllamaTarget
from models_registry.downloads.wire import Line, Trouble, ask

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_PREFIX = "application/vnd.ollama.image."
_ROLES = {f"{_PREFIX}model": "model", f"{_PREFIX}projector": "mmproj"}
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


def plan(
    target: OllamaTarget,
    *,
    registry: str,
    folder: Path,
    rules: Rules,
    redirected: Rules,
    line: Line,
) -> Plan:
    """Raises Refused, Trouble or Ended."""
    base = f"{f'https://{target.host}' if target.host else registry.rstrip('/')}/v2/{target.path}"
    answer = ask(
        f"{base}/manifests/{target.tag}", rules, line, {"Accept": _MANIFEST}, redirected=redirected
    )
    with closing(answer):
        layers = _layers(answer.whole(), target)
    files = [_planned(layer, base, folder) for layer in layers if layer.get("mediaType") in _ROLES]
    if not any(file.role == "model" for file in files):
        raise Refused(f"{target.name} has no GGUF: llama.cpp runs nothing else")
    left = sorted(
        {
            str(layer["mediaType"]).removeprefix(_PREFIX)
            for layer in layers
            if str(layer.get("mediaType", "")).startswith(_PREFIX)
            and layer["mediaType"] not in _ROLES
        }
    )
    notes = (f"not taken from Ollama's model: {', '.join(left)}",) if left else ()
    return Plan(name=target.name, folder=str(folder), files=tuple(files), notes=notes)


def _layers(body: bytes, target: OllamaTarget) -> list[dict[str, Any]]:
    try:
        layers = json.loads(body)["layers"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Trouble(f"the registry's answer for {target.name} is no manifest") from error
    if not isinstance(layers, list) or not all(map(_is_layer, layers)):
        raise Trouble(f"the registry's answer for {target.name} is no manifest")
    return layers


def _is_layer(layer: object) -> bool:
    return isinstance(layer, dict) and isinstance(layer.get("mediaType"), str)


def _planned(layer: dict[str, Any], base: str, folder: Path) -> PlannedFile:
    digest = _DIGEST.fullmatch(str(layer.get("digest", "")))
    size = layer.get("size")
    if digest is None or type(size) is not int or size <= 0:
        raise Refused("the manifest has a layer without a usable digest or size")
    place = folder / "ollama"
    part, lock = part_and_lock(place, digest[0])
    return PlannedFile(
        path=f"sha256-{digest[1]}",
        url=f"{base}/blobs/{digest[0]}",
        size=size,
        checksum=digest[0],
        at=str(place / f"sha256-{digest[1]}.gguf"),
        part=str(part),
        lock=str(lock),
        role=_ROLES[layer["mediaType"]],
    )
