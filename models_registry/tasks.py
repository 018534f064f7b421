"""What the job queue runs, as plain functions; models_registry/jobs.py puts them on a queue."""

from __future__ import annotations

from models_registry.discovery import Report, rescan
from models_registry.errors import ModelsFolderMissing
from models_registry.sources.reading import Places, configured_places


def rescan_sources(places: Places | None = None) -> Report:
    """Rescan `places`, else what this process's settings name. Raises ModelsFolderMissing when
    there is nothing to look into; a folder that has vanished is in the report."""
    places = configured_places() if places is None else places
    if not places.folders():
        raise ModelsFolderMissing(
            "no models folder is known here: name it with --models-dir FOLDER (of serve, or of "
            "`manage.py rescan`, which does not see serve's), or set CORRAL_MODELS_DIR for both"
        )
    return rescan(places)
