"""Names that clients may write as `model`: which are valid, and how a file gets one. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container

LONGEST_NAME = 200

ENDINGS_TAKEN = frozenset(
    {
        "load", "unload", "pin", "unpin", "apply", "measure", "effective", "fit", "clone",
        "activate", "deactivate",
    }
)  # fmt: skip
"""What the management API writes after a name: /router/api/presets/<name>/load."""

MOST_SHARDS = 1000
"""A file name may claim 99,999; whoever looks at the files of a model looks at each of them."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:/@+ -]*")
_FOREIGN = re.compile(r"[^A-Za-z0-9._:/@+ -]+")
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf")


def name_problem(name: str) -> str:
    """What is wrong with `name`; empty when a preset or an alias may have it.

    A name travels through URLs, JSON, the engine's comma-separated `--alias` and INI section
    headers, so only what means nothing in any of them is let in.
    """
    if not name:
        return "a name cannot be empty"
    if len(name) > LONGEST_NAME:
        return f"a name has at most {LONGEST_NAME} characters"
    if not _NAME.fullmatch(name):
        return (
            "use letters, digits and . _ - : / @ + or a space inside, "
            "and begin with a letter, a digit or _"
        )
    if name.endswith(" ") or "  " in name:
        return "a name cannot end with a space or hold two in a row"
    if "/" in name and any(part.strip(" ") in ("", ".", "..") for part in name.split("/")):
        return "between slashes there must be a word, and neither `.` nor `..`"
    if "/" in name and name.rpartition("/")[2] in ENDINGS_TAKEN:
        return f"a name cannot end with /{name.rpartition('/')[2]}, which asks for something"
    return ""


def valid_name(text: str) -> str:
    """`text` made a valid name: what is not allowed becomes `-`. Already valid text stays."""
    if not name_problem(text):
        return text
    segments = [
        re.sub(r" +", " ", _FOREIGN.sub("-", part)).strip("-. ") for part in text.split("/")
    ]
    name = "/".join(segment for segment in segments if segment)
    name = name.lstrip("-.:@+ ")[:LONGEST_NAME].rstrip("-. /")
    if name_problem(name):
        return "model-" + hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
    return name


def unique_name(name: str, taken: Container[str]) -> str:
    """`name`, or `name-2`, `name-3` … : the first one that is not taken."""
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        ending = f"-{number}"
        candidate = name[: LONGEST_NAME - len(ending)] + ending
    return candidate


def file_stem(filename: str) -> str:
    """A GGUF's name without its shard numbers and without every `.gguf`, as llama.cpp names it."""
    shard = shard_of(filename)
    return (shard[0] if shard else filename).replace(".gguf", "")


def shard_of(filename: str) -> tuple[str, int, int] | None:
    """(stem, number, count) of `stem-00001-of-00003.gguf`; None for a file that is whole."""
    match = _SHARD.fullmatch(filename) if "-of-" in filename else None
    if match is None:
        return None
    number, count = int(match["number"]), int(match["count"])
    return (match["stem"], number, count) if 1 <= number <= count else None


def shards_problem(filename: str) -> str:
    """What is wrong with the number of shards that a name claims; empty when nothing is."""
    shard = shard_of(filename)
    if shard is None or shard[2] <= MOST_SHARDS:
        return ""
    return f"claims by its name to be one of {shard[2]} shards: a model has at most {MOST_SHARDS}"


def shard_names(filename: str) -> tuple[str, ...]:
    """Every file that belongs to the model whose first one is `filename`.

    One that claims more than MOST_SHARDS is alone: see `shards_problem`."""
    shard = shard_of(filename)
    if shard is None or shard[2] > MOST_SHARDS:
        return (filename,)
    stem, _, count = shard
    return tuple(f"{stem}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1))


def quantisation(stem: str) -> str:
    """The last `-WORD` or `.WORD` in capitals, as llama.cpp tags files; empty without one."""
    match = re.search(r"[-.]([A-Za-z0-9_]+)$", stem)
    return match[1].upper() if match else ""
