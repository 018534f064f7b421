"""Where downloads lie: the hub's shared cache, Corral's own folder of models, unfinished parts."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from filelock import FileLock, Timeout


def models_folder() -> Path:
    """For what comes from URLs and from Ollama's registry."""
    return Path(settings.CORRAL_VAR) / "models"


def state_folder() -> Path:
    """Locks of the jobs and tokens; readable by the account that runs Corral alone."""
    folder = Path(settings.CORRAL_VAR) / "downloads"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def part_and_lock(folder: Path, identity: str) -> tuple[Path, Path]:
    """Of a file that is known by `identity`: a URL, a digest. Who fetches the same shares them."""
    name = hashlib.sha256(identity.encode()).hexdigest()[:32]
    parts = folder / ".parts"
    return parts / f"{name}.part", parts / f"{name}.lock"


@contextlib.contextmanager
def held(lock: Path) -> Iterator[bool]:
    """Whether this thread holds it until the block ends; the kernel lets go of a dead process's.

    It is the lock of huggingface_hub's own programs, too."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    guard = FileLock(lock, mode=0o664)
    try:
        guard.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        guard.release()


def finish(part: Path, at: Path) -> None:
    """The verified part gets its name: all its bytes are on the disk first."""
    with part.open("rb") as written:
        os.fsync(written.fileno())
    at.parent.mkdir(parents=True, exist_ok=True)
    part.replace(at)
    sync_folder(at.parent)


def point(link: Path, at: Path) -> None:
    """`link` leads to `at` by a relative path, whatever was there before. Where the file system has
    no symbolic links the file itself goes there, as in huggingface_hub's cache."""
    link.parent.mkdir(parents=True, exist_ok=True)
    target = Path(os.path.relpath(at, link.parent))
    if link.is_symlink() and link.readlink() == target:
        return
    made = _unfinished(link.parent)
    try:
        made.symlink_to(target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        at.replace(link)
    else:
        made.replace(link)
    sync_folder(link.parent)


def write_whole(file: Path, text: str) -> None:
    """The old content or the new one, never half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    made = _unfinished(file.parent)
    with made.open("w") as written:
        written.write(text)
        written.flush()
        os.fsync(written.fileno())
    made.replace(file)
    sync_folder(file.parent)


_UNFINISHED = re.compile(r"\.corral-[0-9a-f]{16}")


_BEGUN = time.time()


def _unfinished(folder: Path) -> Path:
    """For a link, or a small file, that gets its name in a moment. What a process left that was
    killed in that moment goes: whatever it was about to do is done again."""
    for file in folder.iterdir():
        if _UNFINISHED.fullmatch(file.name):
            with contextlib.suppress(FileNotFoundError):
                if file.lstat().st_mtime < _BEGUN:
                    file.unlink()
    return folder / f".corral-{secrets.token_hex(8)}"


def sync_folder(folder: Path) -> None:
    """What was renamed in it stays renamed when the power goes."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def free_bytes(folder: Path) -> int:
    """Of the disk on which `folder` is or would be."""
    while not folder.exists():
        folder = folder.parent
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize
