"""The core decides; it does no I/O and knows no framework."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import scheduler.core

FILES = sorted(Path(scheduler.core.__file__).parent.glob("*.py"))
IMPURE = {"asyncio", "logging", "os", "random", "socket", "subprocess", "threading", "time"}


def imports_of(file: Path) -> set[str]:
    """Top-level names of what a file imports from outside its own package."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 1, f"{file.name} reaches above its package"
            found |= {(node.module or "").split(".")[0]} if node.level == 0 else set()
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_core_imports_only_the_standard_library_and_itself(file):
    assert imports_of(file) <= sys.stdlib_module_names


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_core_imports_no_clock_no_io_and_no_log(file):
    assert not imports_of(file) & IMPURE


def test_there_is_a_core_to_look_at():
    assert len(FILES) > 10
