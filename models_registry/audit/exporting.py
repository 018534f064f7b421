"""The trail as files: JSON lines, which can be verified, and CSV, which can be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

import msgspec
from django.db.models import QuerySet

from models_registry.audit import chain
from models_registry.csv_rows import csv_of

HEAD = (*chain.COLUMNS, "digest")
AT_ONCE = 1000
LONGEST_LINE = 1 << 20
"""Bytes: more than any record makes."""

_encode = msgspec.json.Encoder().encode


class Form(StrEnum):
    JSON_LINES = "jsonl"
    CSV = "csv"


def pieces(rows: QuerySet[Any], form: Form) -> Iterator[bytes]:
    """The oldest first. Each piece is a query of its own, so that a slow reader keeps none open."""
    if form is Form.CSV:
        yield csv_of([HEAD])
    after = 0
    while True:
        found = list(rows.filter(number__gt=after).order_by("number").values(*HEAD)[:AT_ONCE])
        if not found:
            return
        after = found[-1]["number"]
        told = [{**row, "at": chain.moment(row["at"])} for row in found]
        if form is Form.CSV:
            yield csv_of([row[name] for name in HEAD] for row in told)
        else:
            yield b"".join(_encode(row) + b"\n" for row in told)


def links(rows: QuerySet[Any]) -> Iterator[chain.Link]:
    """The oldest first."""
    ordered = rows.order_by("number").values(*HEAD)
    return map(chain.Link.of, ordered.iterator(chunk_size=AT_ONCE))


def links_of_lines(lines: Iterable[bytes]) -> Iterator[chain.Link]:
    """Of an export as JSON lines. Raises ValueError, which names the line."""
    for number, line in enumerate(lines, start=1):
        try:
            yield chain.Link.of(msgspec.json.decode(line))
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise ValueError(f"line {number} is no record of an export as JSON lines") from error
