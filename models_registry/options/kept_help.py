"""What an engine said to --help, kept on disk: each process need not run it again."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

from django.conf import settings

logger = logging.getLogger(__name__)

Version = tuple[str, int, int]
"""Of a program: its path, when it was changed in ns, bytes."""

MOST_KEPT = 8
"""Engines: whoever tries one after the other leaves no heap."""


def kept(version: Version) -> str:
    """What it said; empty when nobody has asked it yet, or that cannot be read."""
    try:
        return _file(version).read_text()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        logger.warning("what the engine can do cannot be read, it is asked again: %s", error)
        return ""


def keep(version: Version, text: str) -> None:
    """For the next process. A disk that takes nothing costs only the asking."""
    file = _file(version)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        whole = file.with_name(f"{file.name}.{os.getpid()}")
        whole.write_text(text)
        whole.replace(file)
        others = sorted(file.parent.glob("help-*.txt"), key=lambda each: each.stat().st_mtime)
        for old in others[:-MOST_KEPT]:
            old.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("what the engine can do is not kept, each process asks it: %s", error)


def _file(version: Version) -> Path:
    name = hashlib.sha256(repr(version).encode()).hexdigest()[:32]
    folder: Path = settings.CORRAL_VAR / "engine"
    return folder / f"help-{name}.txt"
