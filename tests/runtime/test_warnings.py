"""What cannot be started is said once, not at each edit of the registry."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.conf import SchedulerConfig
from scheduler.core.values import Config
from scheduler.runtime.offer import Offer
from scheduler.runtime.service import SchedulerService

from .standing_in import preset


@pytest.fixture
async def service(tmp_path: Path) -> SchedulerService:
    config = SchedulerConfig(
        Config(), tmp_path, tmp_path, tmp_path / "s", tmp_path, autoload=True,
        stop_timeout_seconds=1.0,
    )  # fmt: skip
    return SchedulerService(config, record=lambda entry: None)


async def test_a_bad_file_is_warned_of_once_for_each_thing_that_is_wrong_with_it(
    caplog: pytest.LogCaptureFixture, service: SchedulerService
):
    def offers(*problems: str) -> int:
        caplog.clear()
        specs = [replace(preset(f"p{n}"), problem=each) for n, each in enumerate(problems)]
        with caplog.at_level(logging.WARNING):
            service.offer_changed(Offer.of(1, specs, 1.0))
        return sum("cannot be started" in line for line in caplog.messages)

    assert offers("cut off", "") == 1
    assert offers("cut off", "gone") == 1
    assert offers("cut off", "gone") == 0
    assert offers("", "replaced") == 1
    assert offers("cut off", "replaced") == 1
