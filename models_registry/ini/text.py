"""llama.cpp's INI files of presets: text to sections and back. Pure; docs/compatibility.md has the
rules that differ from llama.cpp's own.

    file     lines, each a header, a key, a comment or blank
    header   [name]            no blanks before it
    key      name = value      no blanks before it; the value ends before a ; or a #
    comment  ; or #            a comment `# corral: name = value` is a key that llama.cpp skips

The key `version` is kept for llama.cpp's own use, and says nothing wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

LONGEST_FILE = 4 << 20  # characters

GLOBAL = "*"
HEADERLESS = "default"
_RESERVED = "version"

_NEWLINE = re.compile(r"\r\n|\n|\r")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*")
_CORRAL = re.compile(r"[;#][ \t]*corral:[ \t]*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"[ \t]*(?:[;#].*)?')


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and where; lines and columns count from 1."""

    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.message}"


MOST_TOLD = 100
"""Of faults, or of warnings: whoever has more mends these first."""


def first_told(lines: Sequence[object]) -> list[str]:
    """MOST_TOLD of them, and how many more there are."""
    told = [str(line) for line in lines[:MOST_TOLD]]
    return [*told, f"and {len(lines) - MOST_TOLD} more"] if len(lines) > MOST_TOLD else told


class IniError(Exception):
    """The text is no INI file of presets; `faults` are all that is wrong, in their order, of which
    the message has the first."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("\n".join(first_told(faults)))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class IniKey:
    line: int
    key: str
    value: str


@dataclass(slots=True)
class IniSection:
    line: int
    name: str
    keys: list[IniKey] = field(default_factory=list)


@dataclass(slots=True)
class Ini:
    """The sections by name, in their order; `warnings` are about lines that are taken all the
    same."""

    sections: dict[str, IniSection] = field(default_factory=dict)
    warnings: list[Fault] = field(default_factory=list)


def decoded(data: bytes) -> str:
    """Raises IniError where it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = len(_NEWLINE.split(before.decode(errors="replace")))
        column = error.start - max(before.rfind(b"\n"), before.rfind(b"\r"))
        raise IniError([Fault(line, column, "is not UTF-8: save the file as UTF-8")]) from error


def parse(text: str) -> Ini:
    """Raises IniError with every faulty line."""
    if len(text) > LONGEST_FILE:
        raise IniError([Fault(1, 1, f"the file is longer than {LONGEST_FILE >> 20} MiB")])
    found = Ini()
    faults: list[Fault] = []
    section: IniSection | None = None
    for number, line in enumerate(_NEWLINE.split(text.removeprefix("\ufeff")), start=1):
        name = _header(line)
        if control := _CONTROL.search(line):
            told = f"holds a control character, {control[0]!r}"
            faults.append(Fault(number, control.start() + 1, told))
        elif name:
            section = _opened(found, number, name)
        else:
            read = _read_key(number, line)
            if isinstance(read, Fault):
                faults.append(read)
            elif read is not None and read.key != _RESERVED:
                section = section or _headerless(found, read)
                section.keys.append(read)
    if faults:
        raise IniError(faults)
    return found


def _header(line: str) -> str:
    """The name in it; empty when it is none."""
    if not line.startswith("["):
        return ""
    name, closed, rest = line[1:].partition("]")
    rest = rest.lstrip(" \t")
    return name.strip(" \t") if closed and (not rest or rest[0] in ";#") else ""


def _opened(found: Ini, number: int, name: str) -> IniSection:
    """As in llama.cpp, a section that comes twice replaces the earlier one."""
    earlier = found.sections.pop(name, None)
    if earlier is not None:
        found.warnings.append(
            Fault(number, 1, f"[{name}] replaces the section of that name in line {earlier.line}")
        )
    section = found.sections[name] = IniSection(number, name)
    return section


def _headerless(found: Ini, first: IniKey) -> IniSection:
    found.warnings.append(
        Fault(first.line, 1, f"keys before any [section] make a section [{HEADERLESS}]")
    )
    section = found.sections[HEADERLESS] = IniSection(first.line, HEADERLESS)
    return section


def _read_key(number: int, line: str) -> IniKey | Fault | None:
    """None for a comment or a blank line."""
    start = 0
    stripped = line.lstrip(" \t")
    if not stripped:
        return None
    if stripped[0] in ";#":
        own = _CORRAL.match(stripped)
        if own is None:
            return None
        start = len(line) - len(stripped) + own.end()
    key = _KEY.match(line, start)
    if key is None:
        return Fault(number, start + 1, _what_is_wrong(line[start:]))
    return IniKey(number, key[1], _value(line[key.end() :]))


def _what_is_wrong(line: str) -> str:
    shown = repr(line if len(line) <= 40 else line[:40] + "…")
    if line.startswith((" ", "\t")) and (
        _KEY.match(line.lstrip()) or line.lstrip().startswith("[")
    ):
        return "is indented: a key or a [section] begins its line"
    if line.startswith("["):
        return f"is no section header: write [name] and nothing after it, not {shown}"
    if line.startswith("-"):
        return f"keys have no dashes before them: not {shown}"
    if "=" not in line:
        return f"{shown} is neither a [section], nor `key = value` (a switch: `key = true`)"
    return f"a key is of letters, digits and . _ -, and = comes after it: not {shown}"


def _value(rest: str) -> str:
    """Up to a ; or a #. Where that would cut something off, quotes keep it whole; where it would
    not, they belong to the value, as in llama.cpp."""
    quoted = _QUOTED.fullmatch(rest)
    if quoted is not None and (";" in quoted[1] or "#" in quoted[1]):
        return re.sub(r'\\(["\\])', r"\1", quoted[1])
    return re.split(r"[;#]", rest, maxsplit=1)[0].rstrip(" \t")


# Writing ------------------------------------------------------------------------------------


def cut_by_llama_cpp(value: str) -> bool:
    """Whether llama.cpp would read less than `value`."""
    return ";" in value or "#" in value


def key_lines(key: str, value: str, *, corral: bool = False) -> Iterator[str]:
    """`key = value`; with `corral` as a comment that only Corral reads. What `parse` could not give
    back is not to be written: no line breaks, no blanks around."""
    if not cut_by_llama_cpp(value):
        yield f"# corral: {key} = {value}" if corral else f"{key} = {value}"
        return
    quoted = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if not corral:
        yield f"# llama.cpp would cut the next value off at its first ; or #: {key}"
    yield f"# corral: {key} = {quoted}" if corral else f"{key} = {quoted}"
