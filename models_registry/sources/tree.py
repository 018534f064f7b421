"""A folder and what is below it: its GGUF files, folder by folder, in an order that never changes.

Symlinks are followed. A folder is looked into once, however many links lead to it: a loop ends, and
the shallowest path counts, a folder itself before a link to it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from models_registry.sources.found import CONTROL, LONGEST_PATH, Contents

DEEPEST = 8
"""Folders below the one that was named."""

GGUF = ".gguf"


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A regular, readable file, as `stat` saw it."""

    name: str
    path: str
    size: int
    mtime_ns: int


@dataclass(slots=True)
class Folder:
    """`parts` lead to it from the one that was named; empty for that one itself."""

    parts: tuple[str, ...]
    path: str
    files: list[SeenFile] = field(default_factory=list)


@dataclass(slots=True)
class _Walk:
    contents: Contents
    links_are_files: bool
    seen: dict[tuple[int, int], str] = field(default_factory=dict)


def walk(root: str, contents: Contents, *, links_are_files: bool = False) -> Iterator[Folder]:
    """`root` first, then each level; files by name, hidden ones left out. What cannot be read is
    complained of in `contents`. With `links_are_files` a dangling link that is not named as a GGUF
    is nobody's concern: it is no folder.

    Raises OSError when `root` itself cannot be listed.
    """
    found = Path(root).stat()
    walk = _Walk(contents, links_are_files, {(found.st_dev, found.st_ino): root})
    level = [Folder((), root)]
    while level:
        folders: list[Folder] = []
        links: list[Folder] = []
        for folder in level:
            if _list(folder, folders, links, walk):
                yield folder
        level = [folder for folder in (*folders, *links) if _is_new(folder, walk)]


def _list(folder: Folder, folders: list[Folder], links: list[Folder], walk: _Walk) -> bool:
    """Whether it could be listed. Its sub-folders are added to `folders` or `links`."""
    try:
        with os.scandir(folder.path) as entries:
            sorted_entries = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        if not folder.parts:
            raise
        walk.contents.complain(folder.path, f"cannot be listed ({error.strerror})")
        return False
    for entry in sorted_entries:
        if entry.name.startswith("."):
            continue
        if _is_folder(entry):
            below = Folder((*folder.parts, entry.name), entry.path)
            (links if entry.is_symlink() else folders).append(below)
        elif entry.name.endswith(GGUF) or (entry.is_symlink() and not walk.links_are_files):
            _take_file(entry, folder, walk.contents)
    return True


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links
        return False


def _take_file(entry: os.DirEntry[str], folder: Folder, contents: Contents) -> None:
    try:
        found = entry.stat()
    except OSError as error:  # a dangling symlink, a loop of them, a folder closed to us
        contents.complain(entry.path, f"cannot be read ({error.strerror})")
        return
    if not entry.name.endswith(GGUF):
        return
    if not stat.S_ISREG(found.st_mode):
        contents.complain(entry.path, "is not a regular file")
    elif not os.access(entry.path, os.R_OK):
        contents.complain(entry.path, "may not be read by the account that runs Corral")
    elif not is_text(entry.path):
        contents.complain(
            entry.path, "has a name that is not valid UTF-8, or holds control characters"
        )
    elif len(entry.path) > LONGEST_PATH:
        contents.complain(entry.path, f"has a path of more than {LONGEST_PATH} characters")
    else:
        seen = SeenFile(entry.name, entry.path, found.st_size, found.st_mtime_ns)
        folder.files.append(seen)


def is_text(path: str) -> bool:
    """Whether it can be stored and shown."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return not CONTROL.search(path)


def _is_new(folder: Folder, walk: _Walk) -> bool:
    if len(folder.parts) > DEEPEST:
        words = f"lies more than {DEEPEST} folders deep, where nobody looks: move it up"
        walk.contents.complain(folder.path, words)
        return False
    try:
        found = Path(folder.path).stat()
    except OSError as error:
        walk.contents.complain(folder.path, f"cannot be read ({error.strerror})")
        return False
    first = walk.seen.setdefault((found.st_dev, found.st_ino), folder.path)
    if first != folder.path:
        walk.contents.complain(folder.path, f"is the same folder as {first}, which counts")
    return first == folder.path
