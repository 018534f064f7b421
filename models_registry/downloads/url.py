"""Models at a plain URL: how large they are, and where they come to lie."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from models_registry.downloads.addresses import Rules
from models_registry.downloads.places import part_and_lock
from models_registry.downloads.planned import Plan, PlannedFile, Refused
from models_registry.downloads.targets import UrlTarget
from models_registry.downloads.wire import Answer, Line, ask
from models_registry.naming import shard_names, shards_problem

_TOTAL = re.compile(r"bytes [0-9]+-[0-9]+/([0-9]+)")
_MOST_DIGITS = 18


def plan(
    target: UrlTarget, *, folder: Path, rules: Rules, secret: Mapping[str, str], line: Line
) -> Plan:
    """Of a sharded model all shards. Each file is asked for its first bytes only.

    Raises Refused, Trouble or Ended.
    """
    if problem := shards_problem(target.file):
        raise Refused(f"{target.file} {problem}")
    names = shard_names(target.file)
    if len(names) > 1 and target.sha256:
        raise Refused("a checksum in the URL is of one file; this model has several")
    # Other addresses may end with the same file name, and have another file.
    first = f"{_sibling(target.url, target.file, names[0])}#{target.sha256}"
    own = folder / "url" / hashlib.sha256(first.encode()).hexdigest()[:12]
    files = tuple(_planned(target, name, own, rules, secret, line) for name in names)
    return Plan(name=target.name, folder=str(folder), files=files)


def _planned(
    target: UrlTarget,
    name: str,
    folder: Path,
    rules: Rules,
    secret: Mapping[str, str],
    line: Line,
) -> PlannedFile:
    url = _sibling(target.url, target.file, name)
    with closing(ask(url, rules, line, {"Range": "bytes=0-3"}, secret=secret)) as answer:
        size, validator = size_of(answer), _validator(answer)
    part, lock = part_and_lock(folder.parent, f"{url}#{target.sha256}")
    return PlannedFile(
        path=name,
        url=url,
        size=size,
        checksum=f"sha256:{target.sha256}" if target.sha256 else "",
        at=str(folder / name),
        part=str(part),
        lock=str(lock),
        validator=validator,
    )


def size_of(answer: Answer) -> int | None:
    """Bytes of the whole file, by either kind of answer. Raises Refused for a size beyond all."""
    if answer.status == 206:
        match = _TOTAL.fullmatch(answer.headers.get("Content-Range", ""))
        digits = match[1] if match else ""
    else:
        digits = answer.headers.get("Content-Length", "")
    if not (digits.isascii() and digits.isdigit()):
        return None
    if len(digits) > _MOST_DIGITS:
        raise Refused(f"the server states a size of {len(digits)} digits")
    return int(digits)


def is_same_state(answer: Answer, validator: str) -> bool:
    """Whether a part of the file is of the state that `validator` marks: not every server heeds
    If-Range. One that says nothing is believed."""
    told = [answer.headers[name] for name in ("ETag", "Last-Modified") if name in answer.headers]
    return not told or validator in told


def _validator(answer: Answer) -> str:
    """A strong ETag or the date of the last change; empty when two states cannot be told apart."""
    tag = answer.headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified", "")


def _sibling(url: str, file: str, name: str) -> str:
    """The same address with another last segment."""
    if name == file:
        return url
    head, _, query = url.partition("?")
    changed = head.rpartition("/")[0] + "/" + quote(name)
    return f"{changed}?{query}" if query else changed
