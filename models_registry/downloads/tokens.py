"""The token of one download: in a file of its own, never in a row, a log or a command line."""

from __future__ import annotations

import os
from pathlib import Path

from models_registry.downloads.places import state_folder


def keep(download: int, token: str) -> None:
    """Until `forget`. An empty one is none."""
    if not token:
        return
    opened = os.open(_path(download), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(opened, "w") as file:
        file.write(token)


def own(download: int) -> str:
    """Empty without one."""
    try:
        return _path(download).read_text()
    except FileNotFoundError:
        return ""


def for_the_hub(download: int) -> str:
    """Its own, or HF_TOKEN, or that of Hugging Face's own programs; empty without one."""
    if token := own(download):
        return token
    from huggingface_hub import get_token  # the web processes do without that library

    return get_token() or ""


def forget(download: int) -> None:
    _path(download).unlink(missing_ok=True)


def _path(download: int) -> Path:
    return state_folder() / f"{download}.token"
