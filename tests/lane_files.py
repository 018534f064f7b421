"""What a lane collects (scripts/tests.py loads it): no file is imported of which no test can be the
lane's. The libraries that some import take seconds."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

NAMED = {
    "alone": ("alone", ("mark.alone",)),
    "servers": ("each_server", ("variant", "shared")),  # the fixtures that bring the mark
    "postgres": ("each_database", ("each_database",)),
}
"""The mark of a lane's tests, and words of which one stands in each file that has such a test."""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    lane = os.environ.get("CORRAL_TESTS", "")
    if lane not in NAMED or not collection_path.match("test_*.py"):
        return None
    return None if _may_have(lane, collection_path) else True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The other lanes see whether the words still hold: no test is to be run by none."""
    for lane, (mark, words) in NAMED.items():
        for item in items:
            if item.get_closest_marker(mark) and not _may_have(lane, item.path):
                raise pytest.UsageError(
                    f"{item.nodeid} is marked {mark}, and none of {', '.join(words)} stands in its "
                    f"file: the lane {lane} would not find it"
                )


@cache
def _may_have(lane: str, file: Path) -> bool:
    text = file.read_text()
    return any(word in text for word in NAMED[lane][1])
