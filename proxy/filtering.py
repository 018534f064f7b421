"""A preset's request filters, applied to a body before a child gets it.

Only the top level is taken apart: every value that stays is passed on byte by byte, so that no
number is rounded and a large prompt is not built in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from mmap import mmap
from pathlib import Path
from typing import IO, Any

import msgspec

from proxy.body import Body, Room, body_on_disk, write_parts
from proxy.form import named
from proxy.parsing import Parsing
from proxy.usage.asked_usage import ask
from scheduler.protocol import Filters, Refused

_Fields = dict[str, msgspec.Raw]

SYSTEM = "system"
_SYSTEM_ROLES = (SYSTEM, "developer")
_MOST_TOLD = 20
_ASKING = 100
"""Bytes, at most, of the question for a stream's usage."""
_MOST_ADDED = 100
"""Bytes of a form's part that holds a name, beside the name and the boundary."""
_AT_ONCE = 1 << 20


class _Turn(msgspec.Struct):
    role: str = ""


@dataclass(frozen=True, slots=True)
class Effects:
    """What was done to one body: names of parameters that filters changed; and whether the usage of
    its stream was asked for."""

    stripped: tuple[str, ...] = ()
    defaulted: tuple[str, ...] = ()
    set: tuple[str, ...] = ()
    asks_usage: bool = False

    def __bool__(self) -> bool:
        return bool(self.stripped or self.defaulted or self.set or self.asks_usage)

    def without(self, *own: str) -> Effects:
        """But for what was done to these parameters."""
        stripped, defaulted, changed = (
            tuple(each for each in names if each not in own)
            for names in (self.stripped, self.defaulted, self.set)
        )
        return Effects(stripped, defaulted, changed, self.asks_usage)

    def header(self) -> bytes:
        """`stripped=temperature; set=top_k`, for the client's `x-corral-filters`."""
        told = (("stripped", self.stripped), ("defaulted", self.defaulted), ("set", self.set))
        return "; ".join(f"{what}={_listed(names)}" for what, names in told if names).encode()


NO_EFFECTS = Effects()


def _listed(names: tuple[str, ...]) -> str:
    rest = len(names) - _MOST_TOLD
    return ",".join(names[:_MOST_TOLD]) + (f",+{rest}" if rest > 0 else "")


class Filtering:
    """One per process."""

    def __init__(self, parsing: Parsing, room: Room, temp_folder: Path) -> None:
        self._parsing = parsing
        self._room = room
        self._temp_folder = temp_folder

    async def apply(
        self, body: Body, filters: Filters, *, ask_usage: bool = False
    ) -> tuple[Body, Effects]:
        """`body` as the child is to get it, and what was done; `body` itself when that is nothing.
        Another one is the caller's to close. Raises NoRoom."""
        if body.spooled:
            return await self._apply_on_disk(body, filters, ask_usage)
        changed = partial(_filtered, body, filters, ask_usage)
        data, effects = await self._parsing.run(body, changed)
        if not effects:
            return body, effects
        self._room.held += len(data)
        return Body(self._room, held=data), effects

    async def rename_in_form(self, body: Body, content_type: bytes, model: str) -> Body:
        """A multipart form with another `model`, or with one where it names none: another body,
        which is the caller's to close. Raises Refused."""
        name = model.encode()
        most = body.size + len(name) + len(content_type) + _MOST_ADDED
        if not body.spooled:
            data = await self._parsing.run(
                body, lambda: b"".join(_renamed(body, content_type, name))
            )
            self._room.held += len(data)
            return Body(self._room, held=data)

        async def write(spool: IO[bytes]) -> bool:
            await self._parsing.run(
                body, lambda: write_parts(spool, _renamed(body, content_type, name), most)
            )
            return True

        renamed = await body_on_disk(self._room, self._temp_folder, most, write)
        assert renamed is not None
        return renamed

    async def _apply_on_disk(
        self, body: Body, filters: Filters, ask_usage: bool
    ) -> tuple[Body, Effects]:
        effects = Effects()

        async def write(spool: IO[bytes]) -> bool:
            nonlocal effects
            effects = await self._parsing.run(
                body, partial(_write_filtered, body, filters, ask_usage, spool)
            )
            return bool(effects)

        most = body.size + len(msgspec.json.encode(filters)) + _ASKING
        filtered = await body_on_disk(self._room, self._temp_folder, most, write)
        return filtered or body, effects


def _renamed(body: Body, content_type: bytes, name: bytes) -> Iterator[bytes]:
    """The form's bytes, but for the name of the model."""
    with body.view() as view:
        place, new = named(view, content_type, name)
        for start in range(0, place.start, _AT_ONCE):
            yield view[start : min(start + _AT_ONCE, place.start)]
        yield new
        for start in range(place.stop, len(view), _AT_ONCE):
            yield view[start : start + _AT_ONCE]


def _filtered(body: Body, filters: Filters, ask_usage: bool) -> tuple[bytes, Effects]:
    """Nothing when the filters change nothing."""
    with body.view() as view:
        fields, effects = _changed(view, filters, ask_usage=ask_usage)
        return (msgspec.json.encode(fields) if effects else b""), effects


def _write_filtered(body: Body, filters: Filters, ask_usage: bool, spool: IO[bytes]) -> Effects:
    """Into `spool`, unless the filters change nothing."""
    with body.view() as view:
        fields, effects = _changed(view, filters, ask_usage=ask_usage)
        parts: list[bytes] = []
        try:
            if effects:
                parts += _parts(fields)
                write_parts(spool, parts, sum(memoryview(part).nbytes for part in parts))
            return effects
        finally:
            parts.clear()  # they refer to the view, which could not be closed
            fields.clear()


def _parts(fields: _Fields) -> Iterator[bytes]:
    """The object as JSON, its values as they are."""
    before = b"{"
    for name, value in fields.items():
        yield before + msgspec.json.encode(name) + b":"
        yield value
        before = b","
    yield b"}" if fields else b"{}"


def _changed(
    view: bytes | mmap, filters: Filters, *, ask_usage: bool = False
) -> tuple[_Fields, Effects]:
    """The body's fields, filtered. What is null counts as left out, as the engine takes it. Raises
    Refused."""
    try:
        fields = msgspec.json.decode(view, type=_Fields)
    except RecursionError as error:
        # It was just within bounds where its model was looked for, higher up on the stack.
        raise Refused("invalid_json", "The body's JSON is nested too deeply.") from error
    stripped = tuple(name for name in filters.strip if fields.pop(name, None) is not None)
    missing = {name: value for name, value in filters.defaults.items() if _is_unset(fields, name)}
    system = missing.pop(SYSTEM, None)
    defaulted = tuple(_set(fields, missing))
    if isinstance(system, str) and _begin_with(system, fields):
        defaulted += (SYSTEM,)
    changed = tuple(_set(fields, filters.set))
    return fields, Effects(stripped, defaulted, changed, ask_usage and ask(fields))


def _begin_with(system: str, fields: _Fields) -> bool:
    """Puts the system prompt before the messages of a chat that has none; false when there is one,
    or no chat. What the messages are otherwise is the child's to judge."""
    messages = memoryview(fields.get("messages", msgspec.Raw(b"null")))
    try:
        turns = msgspec.json.decode(messages, type=list[_Turn])
    except (msgspec.MsgspecError, RecursionError):
        return False
    if not turns or any(turn.role in _SYSTEM_ROLES for turn in turns):
        return False
    first = msgspec.json.encode({"role": SYSTEM, "content": system})
    rest = messages[bytes(messages[:64]).index(b"[") + 1 :]
    fields["messages"] = msgspec.Raw(b"".join((b"[", first, b",", rest)))
    return True


def _is_unset(fields: _Fields, name: str) -> bool:
    return name not in fields or _is(fields[name], b"null")


def _is(value: msgspec.Raw, encoded: bytes) -> bool:
    """Without a copy of it."""
    view = memoryview(value)
    return view.nbytes == len(encoded) and view.tobytes() == encoded


def _set(fields: _Fields, values: Mapping[str, Any]) -> list[str]:
    """The names of those whose values were others before."""
    changed: list[str] = []
    for name, value in values.items():
        encoded = msgspec.json.encode(value)
        if name not in fields or not _is(fields[name], encoded):
            fields[name] = msgspec.Raw(encoded)
            changed.append(name)
    return changed
