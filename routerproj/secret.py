"""The secret key: made on the first run, kept in the state folder, readable by its owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def secret_key(var: Path) -> str:
    """The key in `var`/secret, which is made when it is missing.

    Several processes may start at once: the file appears whole, and the first one wins.
    """
    path = var / "secret"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        pass
    var.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = var / f".secret-{os.getpid()}-{secrets.token_hex(4)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(50))
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was first
    finally:
        draft.unlink()
    return path.read_text().strip()
