"""What the job queue runs, as plain functions; models_registry/jobs.py puts them on a queue."""

from __future__ import annotations

from models_registry.indexing import index_soon
from models_registry.sources.discovery import Report, rescan
from models_registry.sources.reading import Places, configured_places

NOTHING = (
    "there is no folder to look into: name one with --models-dir FOLDER (of serve, or of "
    "`manage.py rescan`, which does not see serve's), or set CORRAL_MODELS_DIR for both; "
    "CORRAL_HF_CACHE and CORRAL_OLLAMA_MODELS name the other sources"
)


def rescan_sources(places: Places | None = None) -> Report:
    """Rescan `places`, else what this process's settings name. What could not be looked into is in
    the report, also that there is nothing to look into."""
    places = configured_places() if places is None else places
    if not places.folders() and places.presets_file is None:
        return Report(vanished=[NOTHING])
    report = rescan(places)
    index_soon()  # also when no row changed: a file may have
    return report
