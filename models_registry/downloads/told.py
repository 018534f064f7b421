"""Downloads as a terminal shows them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from models_registry.downloads import shown
from models_registry.models import Download
from models_registry.terminal import bar, table

BAR_COLUMNS = 30
NONE = "-"


def kind_of(target: str) -> str:
    """What it looks like: a URL has a scheme, a repository on Hugging Face a slash."""
    if "://" in target:
        return str(Download.Kind.URL)
    return str(Download.Kind.HUB if "/" in target else Download.Kind.OLLAMA)


def line_of(row: Download, width: int | None) -> str:
    """How far it is, as a bar where the size is known."""
    if row.state != Download.State.RUNNING:
        return f"{row.target}: {row.get_state_display()}"
    trouble = f", {row.error}" if row.error else ""
    told = f"{shown.in_words(row)}{trouble}"
    fraction = shown.fraction(row)
    if fraction is None:
        return f"{row.target}: {told}"
    drawn = f"{bar(fraction, BAR_COLUMNS)} " if width is None or width >= 3 * BAR_COLUMNS else ""
    return f"{drawn}{100 * fraction:3.0f} % {told}"


def table_of(rows: Sequence[Download], width: int | None) -> list[str]:
    """Empty without rows."""
    if not rows:
        return []
    heads = ("ID", "STATE", "DONE", "MODEL", "NOTES")
    told = [
        (
            str(row.pk),
            str(row.state),
            _done(row),
            row.name or row.target,
            row.error or (shown.in_words(row) if row.state == Download.State.RUNNING else ""),
        )
        for row in rows
    ]
    return table([heads, *told], width=width, right=frozenset({0, 2}))


def report(row: Download) -> dict[str, Any]:
    """For programs, by the names of the management API."""
    fields = (
        "id",
        "kind",
        "target",
        "revision",
        "name",
        "state",
        "bytes_done",
        "bytes_total",
        "bytes_per_second",
        "error",
        "asked_by",
    )
    return {name: getattr(row, name) for name in fields} | {"progress": shown.fraction(row)}


def _done(row: Download) -> str:
    fraction = shown.fraction(row)
    return NONE if fraction is None else f"{100 * fraction:.0f} %"
