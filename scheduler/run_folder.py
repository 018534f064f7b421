"""Where the sockets live: a folder that only its owner can enter, with a path short enough."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

LONGEST_FOLDER = 80
"""Characters. A Unix socket's path must stay under 108 bytes (sun_path), its name included."""


class UnsafeRunFolder(Exception):
    """The run folder exists and belongs to someone else, or others may enter it."""


def run_folder(var: Path) -> Path:
    """`var`/run, or a per-user folder under $XDG_RUNTIME_DIR or the temp dir when that is too long.

    The same `var` gives the same folder in every process. Nothing is created.
    """
    folder = var.resolve() / "run"
    if len(os.fsencode(folder)) <= LONGEST_FOLDER:
        return folder
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    return base / f"corral-{os.getuid()}-{digest}"


def make_run_folder(var: Path) -> Path:
    """The run folder, made with mode 0700.

    Raises UnsafeRunFolder when it is not ours alone: a folder in the temp dir can be planted.
    """
    folder = run_folder(var)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_run_folder(folder)
    if folder.lstat().st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def check_run_folder(folder: Path) -> None:
    """Raises UnsafeRunFolder when it exists and is not ours."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    if folder.is_symlink() or found.st_uid != os.getuid():
        raise UnsafeRunFolder(f"{folder} belongs to someone else: remove it or set CORRAL_VAR")


def control_socket(var: Path) -> Path:
    return run_folder(var) / "control.sock"
