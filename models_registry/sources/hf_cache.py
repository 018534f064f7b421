"""The Hugging Face cache, which llama.cpp, huggingface_hub and others fill.

    models--<user>--<repo>/refs/main              text: a commit
    models--<user>--<repo>/snapshots/<commit>/…   links to blobs, or the files themselves

A model is named `user/repo:TAG` as in llama.cpp; what that leaves out (a file without a tag, a
second one of the same tag) is `user/repo/file`. `user/repo` is an alias of Q4_K_M, else of Q8_0,
else of the first. docs/compatibility.md says what else is different.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from models_registry.errors import ModelsFolderMissing
from models_registry.naming import file_stem, name_problem, quantisation, valid_name
from models_registry.sources.found import Contents, FoundModel
from models_registry.sources.parts import (
    DRAFTS,
    bits,
    is_projector,
    models_among,
    preferred,
    state_of,
)
from models_registry.sources.small_files import small_text
from models_registry.sources.tree import Folder, SeenFile, walk

OFF = frozenset({"0", "off", "no", "false"})

_PREFIX = "models--"
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LONGEST_REF = 256  # bytes
_NO_MODELS = ("mmproj", "imatrix", *DRAFTS)


def hub_cache(setting: str, environ: Mapping[str, str]) -> Path:
    """The folder: `setting` (CORRAL_HF_CACHE) when it is a path, else as llama.cpp looks for it.
    Whether anything is there is another question."""
    if setting and setting.lower() not in OFF:
        return Path(setting).expanduser().absolute()
    for name, below in (
        ("LLAMA_CACHE", ""),
        ("HF_HUB_CACHE", ""),
        ("HUGGINGFACE_HUB_CACHE", ""),
        ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
    ):
        if environ.get(name):
            return (Path(environ[name]).expanduser() / below).absolute()
    return Path("~/.cache/huggingface/hub").expanduser().absolute()


def read_hf_cache(folder: Path) -> Contents:
    """Raises ModelsFolderMissing when the folder itself cannot be listed."""
    contents = Contents()
    try:
        found = sorted(folder.iterdir())
    except OSError as error:
        raise ModelsFolderMissing(
            f"the Hugging Face cache {folder} cannot be listed ({error.strerror}): "
            "mount it, correct CORRAL_HF_CACHE, or leave it out with --no-hf-cache"
        ) from error
    for path in found:
        if not path.name.startswith(_PREFIX) or not path.is_dir():
            continue
        repo = repo_of(path.name)
        if repo:
            _add_repo(contents, repo, path)
        else:
            contents.complain(str(path), "is not named as a repository of the hub is")
    return contents


def repo_of(folder_name: str) -> str:
    """`user/repo` of `models--user--repo`; empty when it is no repository's name. The first `--`
    parts the two, a later one belongs to the name."""
    owner, parted, name = folder_name.removeprefix(_PREFIX).partition("--")
    parts = (owner, name) if parted else (owner,)
    return "/".join(parts) if all(_PART.fullmatch(part) for part in parts) else ""


def _add_repo(contents: Contents, repo: str, path: Path) -> None:
    snapshot = _snapshot(contents, path)
    if snapshot is None:
        return
    try:
        folders = list(walk(str(snapshot), contents, links_are_files=True))
    except OSError as error:
        contents.complain(str(snapshot), f"cannot be listed ({error.strerror})")
        return
    models = sorted(_models(folders, contents), key=lambda pair: pair[1].path)
    projectors = [
        (folder, file) for folder in folders for file in folder.files if is_projector(file.name)
    ]
    tags = [quantisation(file_stem(file.name)) for _, file in models]
    default = preferred(tags) if tags else 0
    for number, ((folder, file), tag) in enumerate(zip(models, tags, strict=True)):
        first_of_tag = tag and tags.index(tag) == number
        stem = "/".join((*folder.parts, file_stem(file.name)))
        mmproj = _projector(folder, file, projectors)
        state = state_of(file, {each.name: each for each in folder.files}, mmproj)
        model = FoundModel(
            name=valid_name(f"{repo}:{tag}" if first_of_tag else f"{repo}/{stem}"),
            path=file.path,
            mmproj=mmproj.path if mmproj else "",
            size=state.size,
            aliases=(repo,) if number == default and not name_problem(repo) else (),
            stamp=state.stamp,
        )
        contents.add(model, state)


def _models(folders: list[Folder], contents: Contents) -> Iterator[tuple[Folder, SeenFile]]:
    for folder in folders:
        files = [file for file in folder.files if not any(word in file.name for word in _NO_MODELS)]
        for model in models_among(files, contents):
            yield folder, model


def _snapshot(contents: Contents, repo: Path) -> Path | None:
    """The one that `refs/main` names, else the first by name of the other refs; without any, the
    only one there is. None when there is none: what is being downloaded has none yet."""
    snapshots = repo / "snapshots"
    for ref in _listed(repo / "refs", first="main"):
        try:
            commit = small_text(str(ref), _LONGEST_REF).strip()
        except (OSError, ValueError):  # another ref may do
            continue
        if _COMMIT.fullmatch(commit) and (snapshots / commit).is_dir():
            return snapshots / commit
    found = _listed(snapshots)
    if len(found) > 1:
        words = f"has {len(found)} snapshots, and no ref says which one counts"
        contents.complain(str(repo), words)
    return found[0] if len(found) == 1 else None


def _listed(folder: Path, first: str = "") -> list[Path]:
    """By name; empty when it cannot be listed."""
    try:
        return sorted(folder.iterdir(), key=lambda path: (path.name != first, path.name))
    except OSError:
        return []


def _projector(
    folder: Folder, model: SeenFile, projectors: list[tuple[Folder, SeenFile]]
) -> SeenFile | None:
    """As llama.cpp chooses: the one nearest in the tree, then of the model's own tag, then nearest
    in bits; of equals the F16 one, which every backend reads."""
    tag = quantisation(file_stem(model.name))

    def rank(pair: tuple[Folder, SeenFile]) -> tuple[int, bool, int, bool, str]:
        other, file = pair
        pairs = zip(folder.parts, other.parts, strict=False)
        common = sum(1 for _ in itertools.takewhile(lambda both: both[0] == both[1], pairs))
        own = quantisation(file_stem(file.name))
        return -common, own != tag, abs(bits(file.name) - bits(model.name)), own != "F16", file.path

    return min(projectors, key=rank)[1] if projectors else None
