"""Model files that clients of Ollama hand over, as blobs by their digest, before they make a model
of them."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from pathlib import Path
from typing import IO

from models_registry.downloads.places import finish, free_bytes, models_folder
from models_registry.downloads.transfer import KEPT_FREE
from models_registry.errors import ManagementRefused
from models_registry.models import ModelFile

MAGIC = b"GGUF"
UNUSED_SECONDS = 24 * 3600.0
"""What nobody has made a model of for so long is deleted when the next one comes."""
DEAD_SECONDS = 3600.0
"""An unfinished one that has not grown for so long has no process any more."""

_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")


def folder() -> Path:
    return models_folder() / "uploads"


def hexadecimal(digest: str) -> str:
    """Raises ManagementRefused."""
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise ManagementRefused(
            "invalid_request", f"invalid digest {digest[:80]!r}: sha256:<64 hexadecimal digits>"
        )
    return match[1]


def found(digest: str) -> Path | None:
    """Where it lies, if it has come: handed over, or fetched from Ollama's registry. Raises
    ManagementRefused."""
    name = f"sha256-{hexadecimal(digest)}.gguf"
    places = (folder() / name, models_folder() / "ollama" / name)
    return next((place for place in places if place.is_file()), None)


class Upload:
    """One that is coming. Its bytes have no name before they are whole and their digest is right;
    `close` takes away what is unfinished."""

    def __init__(self, digest: str, *, most: int) -> None:
        """`most` bytes. Raises ManagementRefused."""
        self._hexadecimal = hexadecimal(digest)
        self._most = most
        self._size = 0
        self._sum = hashlib.sha256()
        sweep()
        parts = folder() / ".parts"
        parts.mkdir(parents=True, exist_ok=True)
        self._part = parts / f"{secrets.token_hex(16)}.upload"
        self._file: IO[bytes] = self._part.open("xb")

    def write(self, data: bytes) -> None:
        """Raises ManagementRefused: it is no GGUF, too large, or the disk is full."""
        if self._size < len(MAGIC):
            begun = self._part.read_bytes() if self._size else b""
            if not MAGIC.startswith((begun + data)[: len(MAGIC)]):
                raise ManagementRefused(
                    "invalid_request",
                    "this is no GGUF, and llama.cpp runs nothing else: convert it first",
                )
        self._size += len(data)
        if self._size > self._most:
            raise ManagementRefused(
                "body_too_large",
                f"it is larger than {self._most} bytes: CORRAL_MAX_UPLOAD sets the limit",
            )
        self.check_room(len(data))
        self._file.write(data)
        self._file.flush()
        self._sum.update(data)

    def check_room(self, coming: int) -> None:
        """Raises ManagementRefused."""
        free = free_bytes(folder())
        if coming + KEPT_FREE > free:
            raise ManagementRefused(
                "body_too_large",
                f"there is no room in {folder()}: {coming} bytes are to come, {KEPT_FREE} are to "
                f"stay free, and {free} are free",
            )

    def finish(self) -> None:
        """It gets its name. Raises ManagementRefused for another digest, or for less than a GGUF's
        beginning."""
        self._file.close()
        if self._size < len(MAGIC):
            raise ManagementRefused("invalid_request", "missing request body: no GGUF came")
        if self._sum.hexdigest() != self._hexadecimal:
            raise ManagementRefused(
                "invalid_request",
                f"digest mismatch, expected sha256:{self._hexadecimal}, got "
                f"sha256:{self._sum.hexdigest()}: send it again",
            )
        finish(self._part, folder() / f"sha256-{self._hexadecimal}.gguf")

    def close(self) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)


def sweep() -> None:
    """Deletes what nobody has made a model of, and what a killed process has left."""
    now = time.time()
    for part in (folder() / ".parts").glob("*.upload"):
        _delete_older(part, now - DEAD_SECONDS)
    for file in folder().glob("sha256-*.gguf"):
        path = str(file)
        if not (
            ModelFile.objects.filter(path=path).exists()
            or ModelFile.objects.filter(mmproj=path).exists()
        ):
            _delete_older(file, now - UNUSED_SECONDS)


def _delete_older(file: Path, than: float) -> None:
    try:
        if file.stat().st_mtime < than:
            file.unlink()
    except FileNotFoundError:
        pass  # another process was faster
