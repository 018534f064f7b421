"""How much of a model's files was in memory when its load began."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.core.values import InstanceId
from scheduler.runtime.record import Cached, Entry, Started
from scheduler.runtime.warmth import WarmthRecord, share_in_memory

from .standing_in import preset


def test_a_file_that_was_just_written_is_in_memory(tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_bytes(b"x" * 100_000)

    assert share_in_memory(files) == 1.0
    assert share_in_memory([]) is None


def test_each_file_counts_by_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cold, warm = tmp_path / "cold", tmp_path / "warm"
    cold.write_bytes(b"x" * 3000)
    warm.write_bytes(b"x" * 1000)
    read = os.preadv

    def preadv(descriptor: int, *arguments: object) -> int:
        if os.fstat(descriptor).st_size == 3000:
            raise BlockingIOError(11, "it would have to be read")
        return read(descriptor, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "preadv", preadv)

    assert share_in_memory([cold, warm]) == 0.25


def test_what_a_file_system_cannot_tell_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x")

    def preadv(*arguments: object) -> int:
        raise OSError(95, "not supported")

    monkeypatch.setattr(os, "preadv", preadv)

    assert share_in_memory([file]) is None


def test_a_start_is_recorded_first_and_then_its_warmth(tmp_path: Path) -> None:
    file = tmp_path / "a.gguf"
    file.write_bytes(b"x")
    specs = {
        "here": replace(preset("here"), files=(str(file),)),
        "gone": replace(preset("gone"), files=(str(tmp_path / "no"),)),
    }
    entries: list[Entry] = []
    warmth = WarmthRecord(entries.append, specs.get)
    for number, name in enumerate(("gone", "no preset", "here")):
        warmth(Started(InstanceId(number), name, 1))
    warmth._thread.shutdown()

    assert [type(entry) for entry in entries[:1]] == [Started]
    assert [entry for entry in entries if isinstance(entry, Cached)] == [Cached(InstanceId(2), 1.0)]
