"""How far a download is, as programs and people are told. Pure."""

from __future__ import annotations

from typing import Any

from models_registry.models import Download


def fraction(row: Download) -> float | None:
    """0 to 1; None while nobody knows how much there is."""
    if row.state == Download.State.DONE:
        return 1.0
    if not row.bytes_total:
        return None
    return min(1.0, row.bytes_done / row.bytes_total)


def remaining_seconds(row: Download) -> float | None:
    """At the speed of the last seconds; None when it does not run or nobody can say."""
    if row.state != Download.State.RUNNING or not row.bytes_total or not row.bytes_per_second:
        return None
    return max(0.0, (row.bytes_total - row.bytes_done) / row.bytes_per_second)


def wish(row: Download) -> str:
    """What somebody asked for that its job has not heard yet; empty mostly."""
    if row.state != Download.State.RUNNING or row.wanted == Download.State.RUNNING:
        return ""
    return str(row.wanted)


def progress_of(row: Download) -> dict[str, Any]:
    """For the list of models: `files` as llama.cpp's router tells them, by URL. Behind a `?` may
    stand a secret, and whoever has a key may read the list."""
    told: dict[str, Any] = {
        "value": fraction(row),
        "done": row.bytes_done,
        "total": row.bytes_total,
        "files": {
            file["url"].partition("?")[0]: {"done": file["done"], "total": file["size"]}
            for file in row.files
        },
    }
    seconds = remaining_seconds(row)
    return told if seconds is None else told | {"remaining_seconds": round(seconds, 1)}


def in_words(row: Download) -> str:
    """One line."""
    words = [bytes_told(row.bytes_done)]
    if row.bytes_total is not None:
        words = [f"{bytes_told(row.bytes_done)} of {bytes_told(row.bytes_total)}"]
    if row.state == Download.State.RUNNING and row.bytes_per_second is not None:
        words.append(f"{bytes_told(row.bytes_per_second)}/s")
    seconds = remaining_seconds(row)
    if seconds is not None:
        words.append(f"{time_told(seconds)} left")
    return ", ".join(words)


def bytes_told(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.2f} GiB"


def time_told(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
