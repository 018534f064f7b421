"""How what a child has said, or has not, is told in the log."""

from __future__ import annotations

import logging

from scheduler.core.events import (
    AllocationReported,
    LoadingReported,
    ReadyReported,
    Silent,
    SleepingReported,
)

from .instance_run import InstanceRun, News

logger = logging.getLogger(__name__)

_WORDS = {
    LoadingReported: "loading",
    ReadyReported: "ready",
    AllocationReported: "says what it has allocated",
    SleepingReported: "sleeping",
    Silent: "does not answer",
}


def log_news(run: InstanceRun, news: News) -> None:
    logger.log(_level(run, news), "%s: %s", run.name, _WORDS[type(news)])


def _level(run: InstanceRun, news: News) -> int:
    if isinstance(news, Silent):
        return logging.WARNING
    return logging.DEBUG if run.progress else logging.INFO  # each step of a load is much
