"""What takes seconds to make and is the same for every lane: made by the first that asks, kept in
tests/.cache."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "tests" / ".cache"
SOURCES = ("models_registry/**/*.py", "scheduler/**/*.py", "proxy/**/*.py", "routerproj/**/*.py")
LIBRARIES = "locks/*.txt"


def made_once(path: Path, make: Callable[[Path], None]) -> Path:
    """The file or folder `path`. Where there is none, `make` makes it under another name: it is
    there whole or not at all. Other processes that want it meanwhile wait."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            draft = path.with_name(f"{path.name}.draft")
            _remove(draft)
            make(draft)
            draft.replace(path)
    return path


def of_these_sources(name: str, make: Callable[[Path], None]) -> Path:
    """`made_once` in the cache, anew when the product or a library has changed; what was made of
    other sources goes."""
    path = CACHE / f"{name}-{_sources()}"
    if not path.exists():
        for other in CACHE.glob(f"{name}-*"):
            if path.name not in other.name:
                _remove(other)
    return made_once(path, make)


@cache
def _sources() -> str:
    digest = hashlib.sha256()
    for pattern in (*SOURCES, LIBRARIES):
        for file in sorted(ROOT.glob(pattern)):
            digest.update(f"{file.relative_to(ROOT)}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)  # another lane may be removing it as well
    else:
        path.unlink(missing_ok=True)
