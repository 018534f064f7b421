"""Secrets that presets need: each in a file of its own that the account of Corral alone reads.

A row holds a reference, which says nothing; a new secret gets a new one. So versions, copies and
exports of a row never hold the secret, and what was replaced is not read by mistake.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from django.conf import settings

LONGEST = 4096
"""Characters."""

_REFERENCE = re.compile(r"[0-9a-f]{32}")


def problem(secret: str) -> str:
    """Why it could not be sent in a header; empty when it can."""
    if len(secret) > LONGEST:
        return f"At most {LONGEST} characters can be kept."
    if not secret.isascii() or not secret.isprintable() or secret != secret.strip():
        return "It holds blanks at an end, or characters that no key has: copy it once more."
    return ""


def keep(secret: str) -> str:
    """The reference under which it can be read."""
    reference = secrets.token_hex(16)
    opened = os.open(_path(reference), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "w") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    return reference


def read(reference: str) -> str:
    """Empty when it is kept no longer, or was never."""
    try:
        return _path(reference).read_text() if reference else ""
    except FileNotFoundError:
        return ""


def forget(reference: str) -> None:
    if reference:
        _path(reference).unlink(missing_ok=True)


def _path(reference: str) -> Path:
    if not _REFERENCE.fullmatch(reference):
        raise ValueError("this is no reference of a kept secret")
    folder = Path(settings.CORRAL_VAR) / "secrets"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / reference
