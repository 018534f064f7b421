"""Thousands of model files: found, their headers read, and looked at again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.indexing import fresh
from tests.support.many_models import many_models

pytestmark = pytest.mark.slow

FILES = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 2_000
FIRST, AGAIN = 4e-3 * FILES, 3e-4 * FILES
"""Processor seconds, which another load moves least: more than twice what it takes."""


def test_thousands_of_files_are_indexed_and_looked_at_again_in_good_time(tmp_path: Path) -> None:
    many_models(tmp_path / "models", FILES)

    taken = fresh(tmp_path / "var", tmp_path / "models")

    used = {kind: processor for kind, (_, processor) in taken.items()}
    assert used["rescan, all new"] + used["index, all new"] < FIRST, used
    assert used["rescan, no change"] + used["index, no change"] < AGAIN, used
