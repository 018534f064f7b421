"""The presets file of `--models-preset`: what it says becomes the file's layer of the presets.

It is read whole first, and a faulty one changes nothing. Then what has to change is worked out
(models_registry/ini/file_rows.py) and written at once.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from django.conf import settings

from models_registry.engine_path import llama_server
from models_registry.errors import ImportRefused
from models_registry.ini.file_rows import FileRows, PresetsReport
from models_registry.ini.presets import PresetsFile, read_presets
from models_registry.ini.text import IniError, decoded
from models_registry.options.catalogue import engine_catalogue
from models_registry.revision import planned

LONGEST_FILE = 4 << 20  # bytes


def read(path: Path) -> PresetsFile:
    """Without the database. Raises ImportRefused, naming every fault with its line; and
    EngineMissing, without which no option can be checked."""
    catalogue = engine_catalogue(llama_server())
    try:
        data = _contents(path)
    except OSError as error:
        raise ImportRefused(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > LONGEST_FILE:
        raise ImportRefused(f"{path} is longer than {LONGEST_FILE >> 20} MiB")
    try:
        return read_presets(
            decoded(data),
            catalogue,
            folder=str(path.parent),
            ignore_unknown=settings.CORRAL_MODELS_PRESET_IGNORE_UNKNOWN,
        )
    except IniError as error:
        raise ImportRefused(
            "\n".join(f"{path}: {line}" for line in str(error).splitlines())
        ) from error


def _contents(path: Path) -> bytes:
    """No more than is looked at. Never waits: a pipe in its place is not read. Raises ImportRefused
    and OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ImportRefused(f"{path} is no file: name the INI file itself")
    with os.fdopen(descriptor, "rb") as file:
        return file.read(LONGEST_FILE + 1)


def apply(
    file: PresetsFile, source_options: Mapping[str, Mapping[str, str]] | None = None
) -> PresetsReport:
    """All at once. `source_options` are what sources say of presets, by name: they stand below the
    file's."""
    return planned(lambda: FileRows(file, source_options or {}), FileRows.write).report
