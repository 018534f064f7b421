"""The state folder and the secret key in it: made on the first run, for their owner only."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

SHORTEST_KEY = 32
"""Characters. Django's own check asks for 50; a key of our making has 67."""


class UnusableStateFolder(Exception):
    """CORRAL_VAR cannot be made or written, or its secret cannot be read."""


def make_state_folder(var: Path) -> None:
    """Raises UnusableStateFolder with the reason and the remedy."""
    try:
        var.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UnusableStateFolder(_sentence(var, error)) from error
    if not os.access(var, os.W_OK | os.X_OK):
        raise UnusableStateFolder(_sentence(var, "it is not writable for this user"))


OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO
STATE_FILES = ("*.sqlite3", "*.sqlite3-wal", "*.sqlite3-shm", "*.sqlite3-journal", "secret")


def close_to_others(var: Path) -> None:
    """What an older start, or a looser umask, left readable in `var`: our own files only.

    The folder itself may be shared on purpose: a check warns of it. What cannot be closed stays
    open, and the same check names it.
    """
    for path in open_files(var):
        with contextlib.suppress(OSError):
            path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~OPEN_TO_OTHERS)


def open_files(var: Path) -> list[Path]:
    """Files of our state in `var` that other accounts may read or write, by name; no links."""
    found = []
    for path in (path for pattern in STATE_FILES for path in var.glob(pattern)):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue  # SQLite removes some of them when its last connection closes
        if stat.S_ISREG(status.st_mode) and status.st_mode & OPEN_TO_OTHERS:
            found.append(path)
    return sorted(found)


def secret_key(var: Path) -> str:
    """The key in `var`/secret, which is made when it is missing.

    Several processes may start at once: the file appears whole, and the first one wins.
    """
    path = var / "secret"
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UnusableStateFolder(_sentence(var, error)) from error
    make_state_folder(var)
    draft = var / f".secret-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(50))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(draft, path)
        draft.unlink()
    except OSError as error:
        raise UnusableStateFolder(_sentence(var, error)) from error
    return _read(path)


def _read(path: Path) -> str:
    key = path.read_text().strip()
    if len(key) < SHORTEST_KEY:
        raise UnusableStateFolder(
            f"{path} holds no usable secret key: remove it and a new one is made"
            " (people are logged out, and API keys stop working)"
        )
    return key


def _sentence(var: Path, reason: object) -> str:
    return f"the state folder {var} cannot be used: {reason}. Set CORRAL_VAR to a folder of yours"
