"""The models that these tests use, under the real engine and nothing of ours."""

from __future__ import annotations

from pathlib import Path

from tests.support.tiny_model import tiny_model, vocabulary_only


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    first, second = tiny_model(tmp_path, "a", seed=1), tiny_model(tmp_path, "b", seed=1)

    assert first.read_bytes() == second.read_bytes()


def test_another_seed_gives_other_weights(tmp_path: Path) -> None:
    first, second = tiny_model(tmp_path, "a", seed=1), tiny_model(tmp_path, "b", seed=2)

    assert first.read_bytes() != second.read_bytes()


def test_a_vocabulary_is_small(tmp_path: Path) -> None:
    assert vocabulary_only(tmp_path).stat().st_size < tiny_model(tmp_path).stat().st_size / 5
