"""The names of a lane's failed tests, a line each, in the file that CORRAL_TESTS_FAILED names
(scripts/tests.py tries them once more)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


class Failed:
    def __init__(self, told: Path) -> None:
        self._told = told
        self._names: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._names[report.nodeid] = None

    def pytest_sessionfinish(self) -> None:
        self._told.write_text("".join(f"{name}\n" for name in self._names))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Failed(Path(os.environ["CORRAL_TESTS_FAILED"])), "failed")
