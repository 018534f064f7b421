"""How long the headers of many model files take to read, and how long a look at unchanged ones."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.frame import Scope, say, table
from benchmarks.load import ROOT
from tests.support.many_models import SHAPES, many_models
from tests.support.prepared import first_state

HEADING = "Indexing"
FILES = (100, 1_000, 10_000)
FIRST_SECONDS, AGAIN_SECONDS = 15.0, 1.0
"""The aims, for the last of these."""

_PROGRAM = """
import json, sys
import django
django.setup()
from pathlib import Path
from benchmarks.indexing import rounds
print(json.dumps(rounds(Path(sys.argv[1]))))
"""


def section(folder: Path, scope: Scope) -> str:
    rows = []
    for count in FILES[: scope.steps]:
        models = folder / f"models-{count}"
        many_models(models, count)
        taken = [fresh(folder / f"var-{count}-{number}", models) for number in range(scope.rounds)]
        rows.append(
            [f"{count:,}", *(_seconds([each[kind][0] for each in taken]) for kind in KINDS)]
        )
        say(f"{count} files")
    layers = ", ".join(str(layers) for layers, _ in SHAPES)
    return (
        f"Seconds for sparse files with headers of {layers} layers in turn and small vocabularies: "
        f"median (lowest to highest) of {scope.rounds} rounds. A rescan of the folder registers "
        "the files, or finds that none changed; the index reads their headers, or finds that none "
        f"must be read. The aims at 10,000 files: at most {FIRST_SECONDS:g} s for both when all "
        f"are new, and {AGAIN_SECONDS:g} s when nothing has changed.\n\n"
        + table(["files", *KINDS], rows)
    )


KINDS = ("rescan, all new", "index, all new", "rescan, no change", "index, no change")


def rounds(models: Path) -> dict[str, tuple[float, float]]:
    """(seconds, processor seconds) of each kind, in a process with a registry of its own."""
    from models_registry.indexing import index_files
    from models_registry.sources.reading import Places
    from models_registry.tasks import rescan_sources

    places = Places(models_dir=models)
    steps: tuple[Callable[[], object], ...] = (
        lambda: rescan_sources(places),
        index_files,
        lambda: rescan_sources(places),
        index_files,
    )
    taken = {}
    for kind, step in zip(KINDS, steps, strict=True):
        begun, used = time.perf_counter(), _processor_seconds()
        step()
        taken[kind] = time.perf_counter() - begun, _processor_seconds() - used
    return taken


def _processor_seconds() -> float:
    """Of this process and of the children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def fresh(var: Path, models: Path) -> dict[str, tuple[float, float]]:
    """`rounds` in a process of its own, whose state is in `var`."""
    first_state(var)
    environment = {
        **os.environ, "CORRAL_VAR": str(var), "DJANGO_SETTINGS_MODULE": "routerproj.settings",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(models)],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    taken = json.loads(done.stdout.splitlines()[-1])
    return {kind: (seconds, processor) for kind, (seconds, processor) in taken.items()}


def _seconds(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
