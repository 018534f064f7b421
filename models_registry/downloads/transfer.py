"""The bytes of one file: fetched in parts, resumed, verified, and only then given their name."""

from __future__ import annotations

import errno
import hashlib
import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from models_registry.downloads.addresses import Rules
from models_registry.downloads.places import finish, free_bytes, held
from models_registry.downloads.planned import PlannedFile, Refused
from models_registry.downloads.url import is_same_state, size_of
from models_registry.downloads.wire import Answer, Line, NothingLeft, Trouble, ask

logger = logging.getLogger(__name__)

PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Between two tries that brought nothing; after the last one the download has failed."""

LONGEST_PAUSE_SECONDS = 300.0
ENOUGH_PROGRESS = 1 << 20
"""Bytes after which the next trouble counts as the first."""

KEPT_FREE = 256 << 20
"""Bytes of the disk that are left to others."""

READ_AT_ONCE = 1 << 18
LOOK_AT_DISK_EVERY = 64 << 20
MAGIC = b"GGUF"


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class WrongChecksum(Exception):
    """All bytes came, and they are not those that were promised."""


@dataclass(frozen=True, slots=True)
class Source:
    """How the files of one download are asked for: see `wire.ask`."""

    rules: Rules
    redirected: Rules | None
    secret: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reports:
    """What is told while a file comes: bytes that are there, and what stands in the way."""

    bytes: Callable[[int], None]
    trouble: Callable[[str], None]


def fetch(file: PlannedFile, source: Source, line: Line, reports: Reports) -> None:
    """Returns when the file is at its place, whole and verified, whoever fetched it.

    Raises Refused, Trouble after the last try, or Ended.
    """
    while not file.is_there():
        with held(Path(file.lock)) as mine:
            if not mine:
                reports.trouble("waits: another download, or another program, fetches this file")
                line.wait(0.2)
            elif not file.is_there():
                _fetch_alone(file, source, line, reports)
    reports.trouble("")


def _fetch_alone(file: PlannedFile, source: Source, line: Line, reports: Reports) -> None:
    with closing(_Part(file, line)) as part:
        mended = False
        failed = 0
        while True:
            before = part.size
            try:
                _fetch_once(part, source, reports)
                part.check_magic(whole=True)
                part.verify()
                break
            except WrongChecksum as error:
                part.empty()
                if mended:
                    raise Refused(f"{error}; it was fetched twice") from error
                mended = True
                reports.trouble(f"{error}; it is fetched once more")
            except Trouble as error:
                if isinstance(error, NothingLeft):
                    part.empty()
                failed = 0 if part.size - before >= ENOUGH_PROGRESS else failed
                if failed == len(PAUSES_SECONDS):
                    raise Trouble(f"{error} ({failed + 1} tries)") from error
                pause = _pause(failed, error)
                failed += 1
                reports.trouble(f"{error}; tries again in {pause:.0f} s")
                logger.info("%s: %s; again in %.0f s", file.path, error, pause)
                line.wait(pause)
    finish(Path(file.part), Path(file.at))


def _fetch_once(part: _Part, source: Source, reports: Reports) -> None:
    file = part.file
    if part.is_complete:
        return
    if not file.checksum and not file.validator:
        part.empty()  # nothing would tell that the rest is of another state of the file
    sent = {"Range": f"bytes={part.size}-"} if part.size else {}
    if sent and file.validator:
        sent["If-Range"] = file.validator
    answer = ask(
        file.url, source.rules, part.line, sent, redirected=source.redirected, secret=source.secret
    )
    with closing(answer):
        if answer.status == 200 or not part.continues_with(answer):
            part.empty()
            if answer.status != 200:
                raise Trouble("the server sends another part of the file than it was asked for")
        elif file.validator and not is_same_state(answer, file.validator):
            part.empty()
            raise Trouble("the file changed on the server meanwhile; it begins anew")
        total = _total(file, answer)
        reports.trouble("")
        while data := answer.read(READ_AT_ONCE):
            part.add(data, total)
            reports.bytes(part.size)
    if total is not None and part.size < total:
        raise Trouble(f"the answer ended after {part.size} of {total} bytes")


def _total(file: PlannedFile, answer: Answer) -> int | None:
    """Raises Refused for a page instead of a model, or for another size than the listed one."""
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind == "text/html":
        raise Refused(f"{file.path}: the server sends a page (HTML) instead of a model")
    total = size_of(answer)
    if total is not None and file.size is not None and total != file.size:
        raise Refused(f"{file.path}: the server sends {total} bytes where {file.size} are listed")
    return total if total is not None else file.size


def _pause(failed: int, error: Trouble) -> float:
    asked = error.retry_after_seconds
    return min(PAUSES_SECONDS[failed] if asked is None else asked, LONGEST_PAUSE_SECONDS)


class _Part:
    """The unfinished file, and the checksum of what it holds. Whoever has one holds its lock."""

    def __init__(self, file: PlannedFile, line: Line) -> None:
        """Reads what is there already. Raises Ended."""
        self.file = file
        self.line = line
        self.size = 0
        self._looked_at = 0
        self._is_gguf = False
        path = Path(file.part)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._open: BinaryIO = path.open("a+b")
        self._digest = self._new_digest()
        try:
            self._read_again()
        except BaseException:
            self._open.close()
            raise

    @property
    def is_complete(self) -> bool:
        return self.file.size is not None and self.size == self.file.size

    def close(self) -> None:
        try:
            self._open.close()
        except OSError as error:  # what it still held has no room
            raise self._full(error) from error

    def empty(self) -> None:
        self._open.truncate(0)
        self.size = 0
        self._is_gguf = False
        self._digest = self._new_digest()

    def continues_with(self, answer: Answer) -> bool:
        return answer.headers.get("Content-Range", "").startswith(f"bytes {self.size}-")

    def add(self, data: bytes, total: int | None) -> None:
        """Raises Refused: too much, no model, no room."""
        if total is not None and self.size + len(data) > total:
            raise Refused(f"{self.file.path}: the server sends more than {total} bytes")
        if self.size - self._looked_at >= LOOK_AT_DISK_EVERY:
            self._look_at_disk()
        try:
            self._open.write(data)
            self._open.flush()
        except OSError as error:
            raise self._full(error) from error
        self.size += len(data)
        self._digest.update(data)
        self.check_magic()

    def check_magic(self, *, whole: bool = False) -> None:
        """Raises Refused when the first bytes are not a GGUF's. The part goes: it is of no use."""
        if self._is_gguf or (self.size < len(MAGIC) and not whole):
            return
        first = self._first_bytes()
        if first != MAGIC:
            self.empty()
            raise Refused(f"{self.file.path} is no GGUF: it begins with {first!r}")
        self._is_gguf = True

    def _first_bytes(self) -> bytes:
        self._open.seek(0)
        return self._open.read(len(MAGIC))

    def _begins_well(self) -> bool:
        return MAGIC.startswith(self._first_bytes())

    def verify(self) -> None:
        """Raises WrongChecksum, with the figures."""
        kind, _, wanted = self.file.checksum.partition(":")
        found = self._digest.hexdigest()
        if wanted and found != wanted:
            algorithm = "SHA-256" if kind == "sha256" else "git checksum"
            raise WrongChecksum(
                f"{self.file.path}: the {algorithm} of its {self.size} bytes is {found} where "
                f"{wanted} was promised"
            )

    def _read_again(self) -> None:
        self._open.seek(0)
        while data := self._open.read(1 << 20):
            self.line.check()
            self.size += len(data)
            self._digest.update(data)
        too_long = self.file.size is not None and self.size > self.file.size
        if too_long or not self._begins_well():
            self.empty()  # another program, or another state of the file, left it

    def _new_digest(self) -> _Digest:
        if not self.file.checksum.startswith("git:"):
            return hashlib.sha256()
        digest = hashlib.sha1(usedforsecurity=False)
        digest.update(f"blob {self.file.size}\0".encode())
        return digest

    def _look_at_disk(self) -> None:
        self._looked_at = self.size
        free = free_bytes(Path(self.file.part).parent)
        if free < KEPT_FREE:
            raise self._full(OSError(errno.ENOSPC, "the disk is nearly full"))

    def _full(self, error: OSError) -> Refused | OSError:
        """The error as it is, when it is none of room."""
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return error
        left = "" if self.file.size is None else f"; {self.file.size - self.size} bytes are missing"
        return Refused(
            f"{self.file.path}: there is no room in {Path(self.file.part).parent} "
            f"({error.strerror}){left}. What came so far is kept: make room and retry, or cancel"
        )
