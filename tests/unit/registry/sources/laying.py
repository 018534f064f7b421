"""Lays out stores as other programs do."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
KIND = "application/vnd.ollama.image."


def gguf(path: Path, size: int = 8) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF".ljust(size, b"\0"))
    return path


class Hub:
    """A Hugging Face cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def repo(self, name: str) -> Path:
        return self.folder / f"models--{name.replace('/', '--')}"

    def add(self, repo: str, file: str, *, commit: str = COMMIT, ref: str = "main") -> Path:
        """A file of a snapshot, as a link to a blob; `ref` leads to the snapshot."""
        place = self.repo(repo)
        name = hashlib.sha256(f"{repo} {commit} {file}".encode()).hexdigest()
        blob = gguf(place / "blobs" / name)
        link = place / "snapshots" / commit / file
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
        if ref:
            (place / "refs").mkdir(exist_ok=True)
            (place / "refs" / ref).write_text(commit)
        return link


class Ollama:
    """Ollama's store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "manifests").mkdir(parents=True, exist_ok=True)

    def blob(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        path = self.folder / "blobs" / f"sha256-{digest}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return f"sha256:{digest}"

    def path(self, digest: str) -> str:
        return str(self.folder / "blobs" / digest.replace(":", "-"))

    def manifest(self, name: str, text: str) -> None:
        path = self.folder / "manifests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def add(self, name: str, weights: bytes = b"GGUF one", **layers: Any) -> str:
        """`name` is registry/namespace/model/tag; layers are contents by kind. The model's path."""
        model = self.blob(weights)
        digests = [("model", model)]
        for kind, content in layers.items():
            text = content if isinstance(content, bytes) else json.dumps(content).encode()
            digests.append((kind, self.blob(text)))
        self.manifest(
            name,
            json.dumps(
                {
                    "schemaVersion": 2,
                    "layers": [{"mediaType": KIND + k, "digest": d} for k, d in digests],
                }
            ),
        )
        return self.path(model)
