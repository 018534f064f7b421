"""Files that belong together: shards of one model, projectors, draft models. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from models_registry.model_paths import FilesState
from models_registry.naming import (
    file_stem,
    quantisation,
    shard_names,
    shard_of,
    shards_problem,
)
from models_registry.sources.found import Contents
from models_registry.sources.tree import SeenFile

DRAFTS = ("mtp-", "eagle3-", "dflash-", "dspark-")
"""How the names of draft models begin that were made for one other model."""

PREFERRED = ("Q4_K_M", "Q8_0")
"""Which of several quantisations a name without one means; after these the first by name."""


def models_among(files: Sequence[SeenFile], contents: Contents) -> list[SeenFile]:
    """Of `files` of one folder, none of them a companion: those that are whole, and of shards the
    first. Shards without their first are complained of."""
    models: list[SeenFile] = []
    names = {file.name for file in files}
    complained: set[str] = set()
    for file in files:
        shard = shard_of(file.name)
        if problem := shards_problem(file.name):
            if file_stem(file.name) not in complained:
                contents.complain(file.path, problem)
            complained.add(file_stem(file.name))
        elif shard is None or shard[1] == 1:
            models.append(file)
        elif shard_names(file.name)[0] not in names:
            words = f"belongs to {shard_names(file.name)[0]}, which is not here"
            contents.complain(file.path, words)
    return models


def state_of(
    model: SeenFile, here: Mapping[str, SeenFile], *companions: SeenFile | None
) -> FilesState:
    """What model_paths.files_state would find, out of what the folder's listing saw already."""
    shards = [here.get(name) for name in shard_names(model.name)]
    seen = [shard for shard in shards if shard is not None]
    lost = len(shards) - len(seen)
    files = [*seen, *(companion for companion in companions if companion is not None)]
    return FilesState(
        size=sum(shard.size for shard in seen),
        stamp=tuple((file.path, file.size, file.mtime_ns) for file in files),
        problem=f"{lost} of its {len(shards)} shards are missing" if lost else "",
    )


def is_projector(name: str) -> bool:
    return "mmproj" in name


def preferred(tags: Iterable[str]) -> int:
    """The position of the tag that a name without one means."""
    ranks = [PREFERRED.index(tag) if tag in PREFERRED else len(PREFERRED) for tag in tags]
    return ranks.index(min(ranks))


def bits(name: str) -> int:
    """Bits of a weight by the quantisation in a file's name; 16 when it says none."""
    match = re.search(r"\d+", quantisation(file_stem(name)))
    return int(match[0]) if match else 16
