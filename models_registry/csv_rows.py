"""Rows as CSV that a spreadsheet only shows. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

Row = Sequence[Any]

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


def cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula is marked as text: whoever may write a
    model's name into a request would otherwise run something on the desk of who counts them."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return "" if value is None else value


def csv_of(rows: Iterable[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerows([cell(value) for value in row] for row in rows)
    return text.getvalue().encode()
