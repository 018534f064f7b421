"""Which files of a repository a download takes, as llama.cpp chooses them. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from models_registry.downloads.planned import Refused
from models_registry.naming import file_stem, quantisation, shard_names, shard_of, shards_problem
from models_registry.sources.parts import DRAFTS, bits

MMPROJ = "mmproj"
DRAFT = "draft"
SIDECARS = (MMPROJ, DRAFT)

_NO_MODELS = (MMPROJ, "imatrix", *DRAFTS)
_PREFERRED = ("Q4_K_M", "Q8_0")


def choose_model(paths: Sequence[str], *, tag: str = "", file: str = "") -> str:
    """The model's file, of shards the first. Raises Refused, which names what there is."""
    models = [path for path in paths if is_model(path)]
    if file:
        if file not in paths:
            raise Refused(f"the repository has no file {file!r}: {_listed(models)}")
        return _first_shard(file)
    if not models:
        raise Refused("the repository has no GGUF file of a model: llama.cpp runs nothing else")
    if not tag:
        return next((found for want in _PREFERRED if (found := _of_tag(models, want))), models[0])
    found = _of_tag(models, tag)
    if not found:
        raise Refused(f"the repository has no file of quantisation {tag!r}: {_listed(models)}")
    return found


def is_model(path: str) -> bool:
    """A GGUF that is no companion, of shards the first."""
    if not path.endswith(".gguf") or any(word in path for word in _NO_MODELS):
        return False
    shard = shard_of(posixpath.basename(path))
    return shard is None or shard[1] == 1


def with_shards(path: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Every file of the model whose first one this is. Raises Refused when one is missing."""
    folder, name = posixpath.split(path)
    if problem := shards_problem(name):
        raise Refused(f"{path} {problem}")
    shards = tuple(posixpath.join(folder, shard) for shard in shard_names(name))
    if missing := [shard for shard in shards if shard not in paths]:
        raise Refused(f"the repository lacks shards of the model: {', '.join(missing[:3])}")
    return shards


def choose_sidecar(paths: Sequence[str], model: str, kind: str) -> str:
    """The companion that lies nearest to the model, then is of its tag, then is nearest in bits, as
    the cache's reader chooses among those that are there. Empty when the repository has none."""
    words = (MMPROJ,) if kind == MMPROJ else DRAFTS
    found = [
        path
        for path in paths
        if path.endswith(".gguf") and any(word in posixpath.basename(path) for word in words)
    ]
    tag, width = tag_of(model), bits(posixpath.basename(model))

    def nearness(path: str) -> tuple[int, bool, int, bool, str]:
        common = len(posixpath.commonpath(["/" + path, "/" + model]))
        own = tag_of(path)
        apart = abs(bits(posixpath.basename(path)) - width)
        return -common, own != tag, apart, own != "F16", path

    return min(found, key=nearness, default="")


def tag_of(path: str) -> str:
    """The quantisation that a file's name ends with; empty without one."""
    return quantisation(file_stem(posixpath.basename(path)))


def _of_tag(models: Sequence[str], tag: str) -> str:
    """The one whose tag it is exactly, else the first that has it in its path, as llama.cpp looks
    for it: in whatever case, with a dot or a hyphen behind it."""
    exact = (path for path in models if tag_of(path) == tag.upper())
    pattern = re.compile(re.escape(tag) + "[.-]", re.IGNORECASE)
    return next(exact, next((path for path in models if pattern.search(path)), ""))


def _first_shard(file: str) -> str:
    folder, name = posixpath.split(file)
    return posixpath.join(folder, shard_names(name)[0])


def _listed(models: Sequence[str]) -> str:
    if not models:
        return "it has no GGUF file of a model"
    names = [f"{tag_of(path)} ({path})" if tag_of(path) else path for path in models]
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"it has {', '.join(names[:20])}{more}"
