"""What lies in a models folder.

As llama.cpp's `--models-dir`: models at the top by the names of their files, each sub-folder one by
its own name, with its projector and its draft model. Beyond it, and the same on every machine
because nothing depends on the folder's order:
- the shards of one model count as one model, at the top too;
- a sub-folder with several models (several quants, say) gives each its own: `folder:Q4_K_M` by
  the tag at the end of the file's name, or `folder/file` where tags are missing or equal. The
  folder's own name becomes an alias of Q4_K_M, else of Q8_0, else of the first by name;
- deeper folders, as LM Studio lays them out, are named by their path: `publisher/repo`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from models_registry.errors import ModelsFolderMissing
from models_registry.naming import file_stem, quantisation, valid_name
from models_registry.sources.found import Contents, FoundModel
from models_registry.sources.parts import (
    DRAFTS,
    is_projector,
    models_among,
    preferred,
    state_of,
)
from models_registry.sources.tree import Folder, SeenFile, walk


def read_models_folder(folder: Path) -> Contents:
    """Raises ModelsFolderMissing when the folder itself cannot be listed."""
    folder = folder.expanduser().absolute()
    contents = Contents()
    try:
        for found in walk(str(folder), contents):
            if found.parts:
                _add_folder(contents, found)
            else:
                _add_top(contents, found)
    except OSError as error:
        raise ModelsFolderMissing(
            f"the models folder {folder} cannot be listed ({error.strerror}): "
            "create it, mount it, or correct CORRAL_MODELS_DIR (--models-dir)"
        ) from error
    return contents


def _add_top(contents: Contents, folder: Folder) -> None:
    """At the top nothing says which model a companion belongs to: it is only no model itself."""
    files = [file for file in folder.files if not _is_companion(file.name)]
    here = {file.name: file for file in folder.files}
    for model in models_among(files, contents):
        _add(contents, file_stem(model.name), model, here)


def _add_folder(contents: Contents, folder: Folder) -> None:
    files = [file for file in folder.files if not _is_companion(file.name)]
    models = models_among(files, contents)
    own_name = "/".join(folder.parts)
    draft = next((file for file in folder.files if file.name.startswith(DRAFTS)), None)
    others = [model for model in models if "draft" not in model.name.lower()]
    if draft is None and 0 < len(others) < len(models):
        draft = next(model for model in models if model not in others)
        models = others
    here = {file.name: file for file in folder.files}
    beside = (_projector(folder.files), draft)
    if len(models) == 1:
        _add(contents, own_name, models[0], here, beside)
    elif models:
        tags = [quantisation(file_stem(model.name)) for model in models]
        times = Counter(tags)
        default = models[preferred(tags)]
        for model, tag in zip(models, tags, strict=True):
            ending = f":{tag}" if tag and times[tag] == 1 else f"/{file_stem(model.name)}"
            alias = own_name if model is default else ""
            _add(contents, own_name + ending, model, here, beside, alias)


def _add(
    contents: Contents,
    name: str,
    model: SeenFile,
    here: dict[str, SeenFile],
    beside: tuple[SeenFile | None, SeenFile | None] = (None, None),
    alias: str = "",
) -> None:
    state = state_of(model, here, *beside)
    mmproj, draft = (file.path if file is not None else "" for file in beside)
    found = FoundModel(
        name=valid_name(name),
        path=model.path,
        mmproj=mmproj,
        draft=draft,
        size=state.size,
        aliases=(valid_name(alias),) if alias else (),
        stamp=state.stamp,
    )
    contents.add(found, state)


def _is_companion(name: str) -> bool:
    return is_projector(name) or "imatrix" in name or name.startswith(DRAFTS)


def _projector(files: list[SeenFile]) -> SeenFile | None:
    """The folder's projector; of several the F16 one, which every backend reads, or the first."""
    projectors = [file for file in files if is_projector(file.name)]
    f16 = [file for file in projectors if quantisation(file_stem(file.name)) == "F16"]
    return next(iter(f16 or projectors), None)
