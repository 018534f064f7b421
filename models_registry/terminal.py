"""What people read in a terminal: tables and lines that fit it, and such as are drawn in place.

A stream that is no terminal (a pipe, a file) gets plain lines of their full length: no colour, and
no movement of a cursor.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from typing import TextIO

from models_registry.log_redaction import harmless_text

CLEAR_REST_OF_LINE = "\x1b[K"
_HOME, _CLEAR_BELOW = "\x1b[H", "\x1b[J"
_CLEAR_ALL = "\x1b[2J"
_MARKS = {"bold": "1", "dim": "2", "red": "31"}
_UNKNOWN_SIZE = os.terminal_size((80, 24))
GAP = "  "
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def width_of(text: str) -> int:
    """Columns: wide characters take two, those that are put upon others none."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def clipped(text: str, width: int) -> str:
    """Its first `width` columns; what is left out is marked."""
    if width_of(text) <= width:
        return text
    kept, left = [], width - 1
    for character in text:
        left -= _columns(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept) + ELLIPSIS if width > 0 else ""


def padded(text: str, width: int, *, right: bool = False) -> str:
    blanks = " " * max(0, width - width_of(text))
    return blanks + text if right else text + blanks


def table(
    rows: Sequence[Sequence[str]], *, width: int | None = None, right: frozenset[int] = frozenset()
) -> list[str]:
    """A line for each row, the first being the heads. The columns in `right` end at one place, the
    others begin at one. Lines that are longer than `width` lose first of their last column."""
    shown = [[harmless_text(cell) for cell in row] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(*shown, strict=True)]
    lines = [
        GAP.join(
            padded(cell, widths[at], right=at in right) for at, cell in enumerate(row)
        ).rstrip()
        for row in shown
    ]
    return lines if width is None else [clipped(line, width) for line in lines]


def bar(fraction: float, width: int) -> str:
    """`[####    ]`, of `width` columns in all."""
    inside = max(1, width - 2)
    done = int(inside * min(1.0, max(0.0, fraction)))
    return f"[{'#' * done}{' ' * (inside - done)}]"


class Screen:
    """`progress` is one line that is drawn again in its place; elsewhere than on a terminal only
    what changes of its `step` is written, a line each."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._paints = self.is_terminal and not os.environ.get("NO_COLOR")
        self._step: str | None = None
        self._drawn = False

    @property
    def width(self) -> int | None:
        """Columns; None where lines may be of any length."""
        return self._size().columns if self.is_terminal else None

    def painted(self, text: str, how: str) -> str:
        """`how`: bold, dim or red."""
        return f"\x1b[{_MARKS[how]}m{text}\x1b[0m" if self._paints else text

    def line(self, text: str = "") -> None:
        """Below what is drawn, or in its place."""
        self._write(f"{self._over()}{text}\n")

    def progress(self, text: str, step: str) -> None:
        if self.is_terminal:
            over = "\r" if self._drawn else ""
            self._write(f"{over}{clipped(text, self._size().columns - 1)}{CLEAR_REST_OF_LINE}")
            self._drawn = True
        elif step != self._step:
            self._write(f"{step}\n")
        self._step = step

    def clear_progress(self) -> None:
        self._write(self._over())

    def page(self, lines: Sequence[str]) -> None:
        """On a terminal in place of the page before, and no longer than it is high."""
        if not self.is_terminal:
            self._write("".join(f"{line}\n" for line in [*lines, ""]))
            return
        height = max(2, self._size().lines - 1)
        if len(lines) > height:
            more = f"{ELLIPSIS} {len(lines) - height + 1} more lines"
            lines = [*lines[: height - 1], more]
        start = _HOME if self._drawn else _CLEAR_ALL + _HOME
        shown = "".join(f"{line}{CLEAR_REST_OF_LINE}\n" for line in lines)
        self._write(f"{start}{shown}{_CLEAR_BELOW}")
        self._drawn = True

    def _over(self) -> str:
        drawn, self._drawn = self._drawn, False
        return f"\r{CLEAR_REST_OF_LINE}" if drawn else ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def _size(self) -> os.terminal_size:
        """COLUMNS counts before what the terminal says, as for every program."""
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            size = _UNKNOWN_SIZE
        told = os.environ.get("COLUMNS", "")
        columns = int(told) if told.isascii() and told.isdigit() else 0
        # A terminal of a program without a window says 0
        return os.terminal_size(
            (columns or size.columns or _UNKNOWN_SIZE.columns, size.lines or _UNKNOWN_SIZE.lines)
        )


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
