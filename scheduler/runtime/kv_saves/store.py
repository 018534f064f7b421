"""The folder of saves: what is in it, how much it may hold, and who makes way.

A save is `NAME.kv`, the engine's own file, and `NAME.json`, what it is of; it counts from the
moment in which the second has its name. Whatever else lies there, at a start, was left by a crash
and is removed. Files are 0600 in a folder that is 0700. All of it blocks, and is for one thread.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from .state_file import blocks_of, checksum

SAME_SHARE = 0.9
"""A save of which so much is the beginning of a newer one, of the same tenant, is replaced by it:
the rest is read again in a moment."""
CHILD_PATTERN = "child-*"

Dropped = tuple["Save", str]
"""What was removed, and why: room, replaced, stale, old, broken, refused."""


class Kind(msgspec.Struct, frozen=True):
    """Whose slots fit whose: of the same `key` only. `made` is a part of it: a save of the preset
    with another one is of files, options or an engine that there are no more."""

    preset: str
    made: str
    key: str


class Save(msgspec.Struct, frozen=True):
    """`alone`: nobody but the tenant can have written into that slot. `seconds` it would take to
    read the tokens again, 0 where that is not known; `used` since 1970."""

    name: str
    kind: Kind
    tenant: str
    alone: bool
    tokens: int
    size: int
    checksum: int
    blocks: tuple[int, ...]
    seconds: float
    used: float


@dataclass(frozen=True, slots=True)
class Written:
    """A file that a child has written, in that child's folder."""

    path: Path
    kind: Kind
    tenant: str
    alone: bool
    tokens: int
    seconds: float


_read = msgspec.json.Decoder(Save).decode


class SaveStore:
    def __init__(
        self,
        folder: Path,
        budget: int | None = None,
        clock: Callable[[], float] = time.time,
        *,
        lasts_seconds: float = 86_400.0,
    ) -> None:
        """`budget` in bytes; None: what `default_budget` says. What nobody has come back for in
        `lasts_seconds` is removed. Nothing is done before `open`."""
        self._lasts_seconds = lasts_seconds
        self.folder = folder
        self.budget = budget or 0
        self._open_budget = budget is None
        self._clock = clock
        self._saves: dict[str, Save] = {}

    # What is there ------------------------------------------------------------------------------

    def open(self) -> list[Dropped]:
        """Reads what earlier lives have left, and removes what they have left half. Raises
        OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        for path in self.folder.glob(CHILD_PATTERN):
            shutil.rmtree(path, ignore_errors=True)
        self._saves = {save.name: save for save in self._found()}
        whole = {self._data(name) for name in self._saves} | {self._label(n) for n in self._saves}
        for path in self.folder.iterdir():
            if path not in whole and path.is_file():
                path.unlink(missing_ok=True)
        if self._open_budget:
            self.budget = default_budget(self.folder, self.total)
        return [*self.drop_old(), *self._drop_all(self._victims(0, "") or (), "room")]

    @property
    def total(self) -> int:
        """Bytes of all saves."""
        return sum(save.size for save in self._saves.values())

    def __iter__(self) -> Iterator[Save]:
        return iter(list(self._saves.values()))

    def of(self, kind: Kind) -> list[Save]:
        """Those that fit, the last used first."""
        fitting = (save for save in self._saves.values() if save.kind == kind)
        return sorted(fitting, key=lambda save: -save.used)

    def _found(self) -> Iterator[Save]:
        for path in self.folder.glob("*.json"):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                save = _read(path.read_bytes())
                if save.name == path.stem and self._data(save.name).stat().st_size == save.size:
                    yield save

    # A child's own folder -----------------------------------------------------------------------

    def folder_of_child(self) -> Path:
        """A fresh one whose name nobody can guess. Raises OSError."""
        folder = self.folder / f"child-{secrets.token_hex(16)}"
        folder.mkdir(mode=0o700)
        return folder

    def remove_folder(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    # In and out ---------------------------------------------------------------------------------

    def add(self, written: Written) -> tuple[Save | None, list[Dropped]]:
        """What a child has written is a save from now on, or is removed: with whom made way for it.
        None where it may not have the room. Raises OSError, and then has left nothing."""
        size, crc = checksum(written.path)
        save = Save(
            name=secrets.token_hex(16),
            kind=written.kind,
            tenant=written.tenant,
            alone=written.alone,
            tokens=written.tokens,
            size=size,
            checksum=crc,
            blocks=blocks_of(written.path),
            seconds=written.seconds,
            used=self._clock(),
        )
        dropped = [*self.drop_old(), *self._drop_stale(save.kind)]
        replaced = self._replaced(save)
        victims = self._victims(save.size, save.tenant, without=replaced)
        if victims is None:
            written.path.unlink(missing_ok=True)
            return None, dropped
        dropped += [*self._drop_all(replaced, "replaced"), *self._drop_all(victims, "room")]
        try:
            written.path.chmod(0o600)
            written.path.replace(self._data(save.name))
            self._write_label(save)
        except OSError:
            self._unlink(save)
            written.path.unlink(missing_ok=True)
            raise
        self._saves[save.name] = save
        return save, dropped

    def lend(self, save: Save, folder: Path) -> Path | None:
        """A link to it in a child's folder, once it is known to be what was written; None for one
        that is not, which is dropped."""
        data = self._data(save.name)
        try:
            if checksum(data) != (save.size, save.checksum):
                self.drop(save)
                return None
            link = folder / f"{secrets.token_hex(16)}.kv"
            os.link(data, link)
        except OSError:
            self.drop(save)
            return None
        return link

    def used(self, save: Save) -> None:
        """Somebody came back for it."""
        if save.name in self._saves:
            newer = msgspec.structs.replace(save, used=self._clock())
            with contextlib.suppress(OSError):  # after a restart it is older than it is, no more
                self._write_label(newer)
            self._saves[save.name] = newer

    def drop(self, save: Save) -> None:
        self._saves.pop(save.name, None)
        self._unlink(save)

    def keep_presets(self, names: Collection[str]) -> list[Dropped]:
        """Those of presets that there are no more go."""
        return self._drop_all((s for s in self if s.kind.preset not in names), "stale")

    # Who makes way ------------------------------------------------------------------------------

    def _victims(self, size: int, tenant: str, without: Collection[Save] = ()) -> list[Save] | None:
        """Who makes room for a save: the least lately used of the tenant that then has the most,
        again and again. None where that would be another tenant with less: such a save has no
        room."""
        left = [save for save in self if save not in without]
        short = sum(save.size for save in left) + size - self.budget
        held = _bytes_by_tenant(left)
        held[tenant] = held.get(tenant, 0) + size
        victims: list[Save] = []
        while short > 0:
            heaviest = max(held, key=lambda each: held[each])
            own = [save for save in left if save.tenant == heaviest]
            if not own:
                return None
            oldest = min(own, key=lambda save: save.used)
            left.remove(oldest)
            victims.append(oldest)
            held[heaviest] -= oldest.size
            short -= oldest.size
        return victims

    def drop_old(self) -> list[Dropped]:
        oldest = self._clock() - self._lasts_seconds
        return self._drop_all((save for save in self if save.used < oldest), "old")

    def _drop_stale(self, kind: Kind) -> list[Dropped]:
        others = (s for s in self if s.kind.preset == kind.preset and s.kind.made != kind.made)
        return self._drop_all(others, "stale")

    def _replaced(self, newer: Save) -> list[Save]:
        older = (save for save in self.of(newer.kind) if save.tenant == newer.tenant)
        return [save for save in older if _is_beginning(save, newer)]

    def _drop_all(self, saves: Iterable[Save], why: str) -> list[Dropped]:
        dropped = [(save, why) for save in saves]
        for save, _ in dropped:
            self.drop(save)
        return dropped

    # Files --------------------------------------------------------------------------------------

    def _data(self, name: str) -> Path:
        return self.folder / f"{name}.kv"

    def _label(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _write_label(self, save: Save) -> None:
        draft = self.folder / f"{save.name}.draft"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(save))
        draft.replace(self._label(save.name))

    def _unlink(self, save: Save) -> None:
        """What it is of goes first: without it the rest is nothing."""
        for path in (self._label(save.name), self._data(save.name)):
            path.unlink(missing_ok=True)
        (self.folder / f"{save.name}.draft").unlink(missing_ok=True)


def _bytes_by_tenant(saves: Iterable[Save]) -> dict[str, int]:
    held: dict[str, int] = {}
    for save in saves:
        held[save.tenant] = held.get(save.tenant, 0) + save.size
    return held


def _is_beginning(older: Save, newer: Save) -> bool:
    needed = max(1, round(SAME_SHARE * len(older.blocks)))
    return bool(older.blocks) and older.blocks[:needed] == newer.blocks[:needed]


MOST_BY_DEFAULT = 8 << 30
SHARE_BY_DEFAULT = 0.05
"""Of what is free on that disk, saves not counted."""


def default_budget(folder: Path, held: int) -> int:
    """In bytes, where `held` of them are saves already."""
    return min(MOST_BY_DEFAULT, int(SHARE_BY_DEFAULT * (shutil.disk_usage(folder).free + held)))
