"""What has to change in the registry for it to be as the sources are. Decides, and writes nothing.

- What people made and what the presets file defines is not changed: a name of theirs stays theirs.
- Of one name the higher source counts; the lower one's model is reported, and has no preset.
- A preset follows its name: when the file that its source found under it has been replaced by
  another (a new snapshot, a new blob, another file in the folder), it runs that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models_registry.models import Source
from models_registry.naming import unique_name
from models_registry.sources.found import FoundModel
from models_registry.sources.reading import CALLED, PRECEDENCE, Reading

DISCOVERED = (*PRECEDENCE, Source.DOWNLOAD)
"""Rows of these are kept in step with the disk."""

_TAKEN = (*DISCOVERED, Source.PRESET_FILE)
"""Rows of these become that source's which finds their files: whoever was first."""

_MOVING = (Source.CACHE, Source.OLLAMA)
"""Names there move on to other files while the old ones may stay on disk."""


@dataclass(slots=True)
class FileRow:
    path: str
    source: str
    size: int
    mmproj: str
    draft: str
    missing: bool


@dataclass(slots=True)
class PresetRow:
    name: str
    source: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Rows:
    """The registry: files by path, presets by name, the path that each alias leads to. `is_persons`
    says of a path whether somebody has chosen its projector or draft model by hand, `is_freed` of
    an alias that is not there whether somebody took it away by hand, `is_found` of one that is
    there whether it is as a look at the sources made it. With a presets file, that file lays its
    own options over what the sources say: they are not compared here."""

    files: dict[str, FileRow]
    presets: dict[str, PresetRow]
    aliases: dict[str, str]
    is_persons: Callable[[str], bool]
    is_freed: Callable[[str], bool]
    is_found: Callable[[str], bool]
    presets_file: bool = False


@dataclass(slots=True)
class Plan:
    """Changes by path and name. `moved` is a row's path before and after; `options` are what the
    sources say of presets, all of them; `stale_options` those that the rows do not have. Not
    `is_whole`: there are more new models than were to be planned at once."""

    new_files: dict[str, tuple[Source, FoundModel]] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    changed_files: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    new_presets: dict[str, PresetRow] = field(default_factory=dict)
    turned_presets: dict[str, PresetRow] = field(default_factory=dict)
    new_aliases: dict[str, str] = field(default_factory=dict)
    options: dict[str, Mapping[str, str]] = field(default_factory=dict)
    stale_options: dict[str, Mapping[str, str]] = field(default_factory=dict)
    is_whole: bool = True
    conflicts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def changes(self) -> bool:
        return bool(
            self.new_files
            or self.moved
            or self.changed_files
            or self.missing
            or self.new_presets
            or self.turned_presets
            or self.new_aliases
            or self.stale_options
        )


def plan(reading: Reading, rows: Rows, most_new: int) -> Plan:
    return _Planner(reading, rows, most_new).plan()


class _Planner:
    def __init__(self, reading: Reading, rows: Rows, most_new: int) -> None:
        self._reading = reading
        self._most_new = most_new
        self._rows = rows
        self._plan = Plan()
        self._finder: dict[str, Source] = {}
        self._names: Counter[str] = Counter()  # of the models that the finder found at a path
        for source, contents in reading.sources:
            for found in contents.models:
                if self._finder.setdefault(found.path, source) is source:
                    self._names[found.path] += 1
        self._fresh: set[str] = set()  # paths whose rows are as the first model at them was found
        self._unknown = {path for _, each in reading.sources for path in each.unknown}
        self._presets_of: dict[str, list[PresetRow]] = {}
        for preset in rows.presets.values():
            self._presets_of.setdefault(preset.path, []).append(preset)

    def plan(self) -> Plan:
        for source, contents in self._reading.sources:
            for found in contents.models:
                if self._finder[found.path] is source:
                    self._take(source, found)
        self._mark_missing()
        return self._plan

    def _take(self, source: Source, found: FoundModel) -> None:
        row = self._rows.files.get(found.path)
        if row is not None and row.source not in _TAKEN:
            return
        if row is not None and found.path not in self._fresh:
            self._refresh(row, source, found)
        own = self._rows.presets.get(found.name)
        if own is not None and own.path == found.path:
            if _rank(own.source) > _rank(source):  # found where the higher source is now
                self._turn(own, source, found)
            elif own.source == source == Source.OLLAMA:
                self._set_options(own, found)
            self._give_names(own, found)
        elif len(self._plan.new_files) >= self._most_new and row is None:
            self._plan.is_whole = False
        elif not self._has_enough(found):
            self._offer(source, found)

    def _refresh(self, row: FileRow, source: Source, found: FoundModel) -> None:
        self._fresh.add(row.path)
        changes: dict[str, Any] = {}
        if row.source == Source.PRESET_FILE:
            row.source = changes["source"] = source
        if row.size != found.size:
            changes["size"] = found.size
        mmproj = found.mmproj or _if_there(row.mmproj)
        draft = found.draft or _if_there(row.draft)
        if (row.mmproj, row.draft) != (mmproj, draft) and not self._rows.is_persons(row.path):
            changes |= {"mmproj": mmproj, "draft": draft}
        if row.missing:
            self._plan.returned.append(row.path)
            changes["missing_since"] = None
        if changes:
            self._plan.changed_files[row.path] = changes
            row.size, row.missing = found.size, False
            row.mmproj, row.draft = (
                changes.get("mmproj", row.mmproj),
                changes.get("draft", row.draft),
            )

    def _has_enough(self, found: FoundModel) -> bool:
        """A preset that somebody made for a file, or renamed, is enough; one of the presets file
        is not. Where several names lead to one file (Ollama's copies), each of them is to lead
        there, if only as an alias."""
        if self._names[found.path] == 1:
            presets = self._presets_of.get(found.path, [])
            return any(preset.source != Source.PRESET_FILE for preset in presets)
        return self._rows.aliases.get(found.name) == found.path

    def _offer(self, source: Source, found: FoundModel) -> None:
        """A preset for it: a new one, or the one that has its name from here or from below."""
        owner = self._rows.presets.get(found.name)
        if owner is not None and self._is_replaced(owner, source):
            self._follow(owner, source, found)
            return
        if owner is not None and _rank(owner.source) > _rank(source):
            words = f"{CALLED[source]} goes before {CALLED[Source(owner.source)]}"
            self._plan.conflicts.append(f"{found.name}: runs {found.path} now, for {words}")
            self._add_file(source, found)
            self._turn(owner, source, found)
            return
        self._add_file(source, found)
        is_only_name = self._names[found.path] == 1
        if found.name in self._rows.aliases or (
            owner is not None and (owner.source != source or not is_only_name)
        ):
            self._refuse(found, owner)
            return
        name = found.name
        if owner is not None:
            name = unique_name(name, self._rows.presets.keys() | self._rows.aliases.keys())
            words = f"{found.name!r} is taken, so it is named {name!r}"
            self._plan.conflicts.append(f"{found.path}: {words}")
        self._make(name, source, found)

    def _refuse(self, found: FoundModel, owner: PresetRow | None) -> None:
        if owner is None:
            whose = "an alias"
        elif owner.source in CALLED:
            whose = f"a model of {CALLED[Source(owner.source)]}"
        else:
            whose = "another preset"
        self._plan.conflicts.append(
            f"{found.path}: its name {found.name!r} belongs to {whose}; "
            "add a preset for this file under another name, or rename the other one"
        )

    def _is_replaced(self, owner: PresetRow, source: Source) -> bool:
        """Whether the file of a preset of this source's is not what the source has any more."""
        kin = Source.CACHE if owner.source == Source.DOWNLOAD else owner.source
        if kin != source or owner.path in self._finder or self._is_unknown(owner.path):
            return False
        row = self._rows.files.get(owner.path)
        if row is None or row.source not in DISCOVERED:
            return False
        return owner.source in _MOVING or not Path(owner.path).exists()

    def _follow(self, owner: PresetRow, source: Source, found: FoundModel) -> None:
        """The row goes on under the new path, with all that people made of it; unless that path has
        a row already."""
        if found.path in self._rows.files or owner.path in self._plan.moved.values():
            self._turn(owner, source, found)
            return
        old = owner.path
        row = self._rows.files.pop(old)
        if not self._rows.is_persons(old):
            row.mmproj, row.draft = found.mmproj, found.draft
        row.path, row.size, row.missing = found.path, found.size, False
        self._rows.files[row.path] = row
        self._fresh.add(row.path)
        self._plan.moved[old] = row.path
        self._plan.changed_files[old] = {
            "path": row.path,
            "size": row.size,
            "mmproj": row.mmproj,
            "draft": row.draft,
            "missing_since": None,
        }
        for preset in self._presets_of.pop(old, []):
            preset.path = row.path
            self._presets_of.setdefault(row.path, []).append(preset)
        self._set_options(owner, found)

    def _turn(self, owner: PresetRow, source: Source, found: FoundModel) -> None:
        self._presets_of[owner.path].remove(owner)
        owner.path, owner.source = found.path, source
        self._presets_of.setdefault(found.path, []).append(owner)
        self._plan.turned_presets[owner.name] = owner
        self._set_options(owner, found)

    def _add_file(self, source: Source, found: FoundModel) -> None:
        if found.path in self._rows.files:
            return
        self._fresh.add(found.path)
        self._plan.new_files[found.path] = (source, found)
        self._rows.files[found.path] = FileRow(
            found.path, source, found.size, found.mmproj, found.draft, missing=False
        )

    def _make(self, name: str, source: Source, found: FoundModel) -> None:
        preset = PresetRow(name, source, found.path, found.options)
        self._plan.new_presets[name] = preset
        self._plan.options[name] = found.options
        self._plan.notes += [f"{name}: {note}" for note in found.notes]
        self._rows.presets[name] = preset
        self._presets_of.setdefault(found.path, []).append(preset)
        for alias in found.aliases:
            if alias in self._rows.presets or alias in self._rows.aliases:
                self._plan.conflicts.append(f"{name}: {alias!r} is taken, so it is no alias of it")
            else:
                self._plan.new_aliases[alias] = name
                self._rows.aliases[alias] = found.path

    def _give_names(self, preset: PresetRow, found: FoundModel) -> None:
        """Those that another one had which is gone, or whose file is: `user/repo`, of the
        quantisation it meant."""
        for alias in found.aliases:
            if alias in self._rows.presets:
                continue
            path = self._rows.aliases.get(alias)
            if path == found.path:
                continue
            is_free = (
                not self._rows.is_freed(alias)
                if path is None
                else self._is_gone(path) and self._rows.is_found(alias)
            )
            if is_free:
                self._plan.new_aliases[alias] = preset.name
                self._rows.aliases[alias] = found.path

    def _is_gone(self, path: str) -> bool:
        """Of a file of the sources: it is not there, and its folder could be looked into."""
        row = self._rows.files.get(path)
        if row is None or row.source not in _TAKEN or path in self._finder:
            return False
        return not self._is_unknown(path) and not Path(path).exists()

    def _set_options(self, preset: PresetRow, found: FoundModel) -> None:
        self._plan.options[preset.name] = found.options
        if preset.options != found.options and not self._rows.presets_file:
            self._plan.stale_options[preset.name] = found.options
            preset.options = found.options

    def _mark_missing(self) -> None:
        read = {source for source, _ in self._reading.sources} | {Source.DOWNLOAD}
        for path, row in self._rows.files.items():
            if row.source not in read or path in self._finder or row.missing:
                continue
            if not self._is_unknown(path) and not Path(path).exists():
                self._plan.missing.append(path)

    def _is_unknown(self, path: str) -> bool:
        """Whether it is at or below a path whose state could not be learned."""
        return any(str(each) in self._unknown for each in (Path(path), *Path(path).parents))


def _rank(source: str) -> int:
    """Higher sources first; -1 for what no source may take."""
    return PRECEDENCE.index(Source(source)) if source in PRECEDENCE else -1


def _if_there(path: str) -> str:
    return path if path and Path(path).exists() else ""
