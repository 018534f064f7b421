"""Each row of docs/security.md's checklist names tests that exist, or says why there is none."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ROWS = {
    **{"A": 11, "B": 5, "C": 4, "D": 3, "E": 5, "F": 5, "G": 6, "H": 3, "I": 3, "J": 6, "K": 4},
    "L": 2,
}
REASONS = re.compile(r"\b(Not|Risk)\b")


def checklist() -> dict[str, tuple[str, str, str]]:
    """What must hold, the tests and the rest of each row, by its name."""
    text = (ROOT / "docs/security.md").read_text().partition("## The checklist")[2]
    found = re.findall(r"^\| ([A-L]\d+) \| (.+?) \| (.*?) \| (.*?) \|$", text, re.M)
    return {name: (must, tests, besides) for name, must, tests, besides in found}


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_the_checklist_is_whole() -> None:
    wanted = [f"{letter}{number}" for letter, last in ROWS.items() for number in range(1, last + 1)]

    assert list(checklist()) == wanted


def test_each_row_has_a_test_or_a_reason() -> None:
    bare = [
        name
        for name, (_, tests, besides) in checklist().items()
        if "::" not in tests and not REASONS.search(besides)
    ]

    assert bare == []


def test_every_test_that_it_names_exists() -> None:
    named = [
        (name, path, test)
        for name, (_, tests, _) in checklist().items()
        for path, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests)
    ]

    assert len(named) > 100
    assert [each for each in named if each[2] not in names_in(each[1])] == []
