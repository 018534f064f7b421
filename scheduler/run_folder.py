"""Where the sockets live: a folder that only its owner can enter, with a path short enough."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
from pathlib import Path

LONGEST_FOLDER = 80
"""Characters. A Unix socket's path must stay under 108 bytes (sun_path), its name included."""


class UnsafeRunFolder(Exception):
    """The run folder exists and belongs to someone else, or others may enter it."""


RECORD = "run-folder"
"""The file in CORRAL_VAR that says which folder was chosen, where `run` there is too long."""
LONGEST_RECORD = 4096


def run_folder(var: Path) -> Path:
    """`var`/run; where that is too long the folder that was recorded there, else one of our own
    under $XDG_RUNTIME_DIR or the temp dir.

    The same `var` gives the same folder in every process, whatever its environment, once
    `make_run_folder` was called. Nothing is created.
    """
    folder = var.resolve() / "run"
    if len(os.fsencode(folder)) <= LONGEST_FOLDER:
        return folder
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    name = f"corral-{os.getuid()}-{digest}"
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    return _recorded(var, name) or base / name


def make_run_folder(var: Path) -> Path:
    """The run folder, made with mode 0700.

    Raises UnsafeRunFolder when it is not ours alone: a folder in the temp dir can be planted.
    """
    folder = run_folder(var)
    if is_elsewhere(folder, var):
        _record(var, folder)
        folder = run_folder(var)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_run_folder(folder)
    if folder.lstat().st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def remove_if_elsewhere(folder: Path, var: Path) -> None:
    """At a clean end: a temp dir shall not fill with ours. One that is still in use stays."""
    if is_elsewhere(folder, var):
        with contextlib.suppress(OSError):
            folder.rmdir()


def is_elsewhere(folder: Path, var: Path) -> bool:
    return folder != var.resolve() / "run"


def _recorded(var: Path, name: str) -> Path | None:
    """None when nothing was recorded that still holds: by us, for this `var` (it may have been
    copied), in a folder that is there (a login's own is not after its end)."""
    try:
        descriptor = os.open(var / RECORD, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.getuid() or found.st_mode & 0o022:
            return None
        folder = Path(os.fsdecode(os.read(descriptor, LONGEST_RECORD)))
    finally:
        os.close(descriptor)
    holds = folder.name == name and folder.is_absolute() and folder.parent.is_dir()
    return folder if holds else None


def _record(var: Path, folder: Path) -> None:
    """Of two at once the first wins: the second reads its choice."""
    lock = os.open(var, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _recorded(var, folder.name) is None:
            descriptor, draft = tempfile.mkstemp(dir=var, prefix=f"{RECORD}-")  # 0600
            os.write(descriptor, os.fsencode(folder))
            os.close(descriptor)
            Path(draft).replace(var / RECORD)
    finally:
        os.close(lock)


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
