"""What the job queue runs, as plain functions; models_registry/jobs.py puts them on a queue."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from models_registry.discovery import Report, rescan
from models_registry.errors import ModelsFolderMissing


def rescan_models_dir() -> Report:
    """Rescan the configured folder. Raises ModelsFolderMissing, also when none is configured."""
    if not settings.CORRAL_MODELS_DIR:
        raise ModelsFolderMissing(
            "no models folder is known here: name it with --models-dir FOLDER (of serve, or of "
            "`manage.py rescan`, which does not see serve's), or set CORRAL_MODELS_DIR for both"
        )
    return rescan(Path(settings.CORRAL_MODELS_DIR))
