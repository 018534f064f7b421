"""What lies in a models folder, read without the database.

Like llama.cpp's `--models-dir`: models at the top, and one level of sub-folders, one model each.
Beyond it, and the same on every machine because nothing depends on the folder's order:
- the shards of one model count as one model, at the top too;
- a sub-folder with several models (several quants, say) gives each its own: `folder:Q4_K_M` by
  the tag at the end of the file's name, or `folder/file` where tags are missing or equal. The
  folder's own name becomes an alias of Q4_K_M, else of Q8_0, else of the first by name.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from models_registry.errors import ModelsFolderMissing
from models_registry.model_paths import files_state
from models_registry.naming import (
    file_stem,
    quantisation,
    shard_names,
    shard_of,
    shards_problem,
    valid_name,
)

LONGEST_PATH = 1024  # what ModelFile.path holds

_DRAFTS = ("mtp-", "eagle3-", "dflash-", "dspark-")
_PREFERRED = ("Q4_K_M", "Q8_0")


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model on disk. `alias` is the folder's name where this model answers to it as well."""

    name: str
    path: str
    mmproj: str
    size: int
    alias: str = ""


@dataclass(slots=True)
class Contents:
    """`unknown` are paths whose state could not be learned: what is at or below them may exist."""

    models: list[FoundModel] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def complain(self, path: Path, words: str) -> None:
        self.problems.append(f"{os.fsencode(path).decode(errors='replace')}: {words}")
        self.unknown.append(os.fspath(path))


def read_models_folder(folder: Path) -> Contents:
    """Raises ModelsFolderMissing when the folder itself cannot be listed."""
    folder = folder.expanduser().absolute()
    contents = Contents()
    try:
        files, folders = _listing(folder, contents)
    except OSError as error:
        raise ModelsFolderMissing(
            f"the models folder {folder} cannot be listed ({error.strerror}): "
            "create it, mount it, or correct CORRAL_MODELS_DIR (--models-dir)"
        ) from error
    for model in _models(files, contents):
        _add(contents, valid_name(file_stem(model.name)), model, mmproj="")
    for subfolder in folders:
        try:
            inside, _ = _listing(subfolder, contents)
        except OSError as error:
            contents.complain(subfolder, f"cannot be listed ({error.strerror})")
            continue
        _add_folder(contents, subfolder, inside)
    return contents


def _listing(folder: Path, contents: Contents) -> tuple[list[Path], list[Path]]:
    """(GGUF files, sub-folders) sorted by name; symlinks are followed, hidden ones left out."""
    files: list[Path] = []
    folders: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        try:
            mode = path.stat().st_mode
        except OSError as error:  # a dangling symlink, a loop of them, a folder closed to us
            contents.complain(path, f"cannot be read ({error.strerror})")
            continue
        if stat.S_ISDIR(mode):
            folders.append(path)
        elif path.name.endswith(".gguf"):
            _take_file(path, mode, files, contents)
    return files, folders


def _take_file(path: Path, mode: int, files: list[Path], contents: Contents) -> None:
    if not stat.S_ISREG(mode):
        contents.complain(path, "is not a regular file")
    elif not os.access(path, os.R_OK):
        contents.complain(path, "may not be read by the account that runs Corral")
    elif not _is_text(path):
        contents.complain(path, "has a name that is not valid UTF-8, or holds control characters")
    elif len(os.fspath(path)) > LONGEST_PATH:
        contents.complain(path, f"has a path of more than {LONGEST_PATH} characters")
    else:
        files.append(path)


def _is_text(path: Path) -> bool:
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return False
    return not any(ord(character) < 32 for character in os.fspath(path))


def _models(files: list[Path], contents: Contents) -> list[Path]:
    """The files that are models: no companions, of shards the first."""
    models: list[Path] = []
    names = {file.name for file in files}
    complained: set[str] = set()
    for file in files:
        if _is_companion(file.name):
            continue
        shard = shard_of(file.name)
        if problem := shards_problem(file.name):
            if file_stem(file.name) not in complained:
                contents.complain(file, problem)
            complained.add(file_stem(file.name))
            continue
        if shard is None or shard[1] == 1:
            models.append(file)
        elif shard_names(file.name)[0] not in names:
            contents.complain(file, f"belongs to {shard_names(file.name)[0]}, which is not here")
    return models


def _is_companion(name: str) -> bool:
    return "mmproj" in name or name.startswith(_DRAFTS)


def _add(contents: Contents, name: str, model: Path, *, mmproj: str, alias: str = "") -> None:
    state = files_state(os.fspath(model))
    if state.problem:
        contents.problems.append(f"{model}: {state.problem}")
    contents.models.append(FoundModel(name, os.fspath(model), mmproj, state.size, alias))


def _add_folder(contents: Contents, folder: Path, files: list[Path]) -> None:
    models = _models(files, contents)
    mmproj = _projector(files)
    own_name = valid_name(folder.name)
    if len(models) == 1:
        _add(contents, own_name, models[0], mmproj=mmproj)
        return
    tags = {model: quantisation(file_stem(model.name)) for model in models}
    times = Counter(tags.values())
    preferred = min(models, key=lambda model: _preference(tags[model])) if models else None
    for model in models:
        tag = tags[model]
        ending = f":{tag}" if tag and times[tag] == 1 else f"/{file_stem(model.name)}"
        alias = own_name if model is preferred else ""
        _add(contents, valid_name(folder.name + ending), model, mmproj=mmproj, alias=alias)


def _preference(tag: str) -> int:
    return _PREFERRED.index(tag) if tag in _PREFERRED else len(_PREFERRED)


def _projector(files: list[Path]) -> str:
    """The folder's projector; of several the F16 one, which every backend reads, or the first."""
    projectors = [file for file in files if "mmproj" in file.name]
    f16 = [file for file in projectors if quantisation(file_stem(file.name)) == "F16"]
    return os.fspath((f16 or projectors)[0]) if projectors else ""
