"""The job queues: downloads, measures and the reading of headers apart, so that none waits for
another.

The registry's jobs are declared at the end of this file, the scheduler's in scheduler/tasks.py; all
run in `manage.py runjobs`. A job loads by key, may run twice, and is enqueued on commit.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import sqlite3
from collections.abc import Callable
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections

from models_registry.audit.actors import job as audited_job
from models_registry.lean_imports import taken_as_missing
from models_registry.tasks import rescan_sources

with taken_as_missing("psycopg"):  # no queue of ours is in PostgreSQL
    from huey import Huey, PriorityRedisHuey, SqliteHuey
    from huey import crontab as crontab
    from huey.consumer import Consumer as Consumer
    from huey.exceptions import ConfigurationError

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


def _queue(name: str) -> Huey:
    """Never immediate: a job inside the request that asked for it is another program. No results
    are kept: an outcome is a row, which a person can see."""
    if not settings.CORRAL_JOBS_REDIS_URL:
        path = settings.CORRAL_VAR / f"jobs-{name}.sqlite3"
        return SqliteHuey(name, filename=str(path), results=False, immediate=False, timeout=20)
    try:
        return PriorityRedisHuey(
            f"corral-{name}", url=settings.CORRAL_JOBS_REDIS_URL, results=False, immediate=False
        )
    except ConfigurationError as error:
        raise ImproperlyConfigured(
            "REDIS_URL is set, but the package `redis` is not installed: pip install redis"
        ) from error


def _queue_errors() -> tuple[type[Exception], ...]:
    """What putting a job on its queue may raise."""
    found: tuple[type[Exception], ...] = (sqlite3.Error, OSError)
    if settings.CORRAL_JOBS_REDIS_URL and importlib.util.find_spec("redis"):
        found += (import_module("redis").RedisError,)
    return found


downloads = _queue("downloads")
measures = _queue("measures")
headers = _queue("headers")
QUEUE_ERRORS = _queue_errors()


def with_fresh_connections(job: Callable[P, R]) -> Callable[P, R]:
    """A worker thread lives for weeks, a database connection may not."""

    @functools.wraps(job)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        close_old_connections()
        try:
            return job(*args, **kwargs)
        finally:
            close_old_connections()

    return wrapped


def as_job(name: str, job: Callable[P, R]) -> Callable[P, R]:
    """What it changes, it changes by that name."""

    @functools.wraps(job)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with audited_job(name):
            return job(*args, **kwargs)

    return wrapped


def task(queue: Huey, job: Callable[P, R], *, name: str) -> Any:
    """`job` as a task of `queue`: calling the result enqueues it."""
    return queue.task(name=name)(with_fresh_connections(as_job(name, job)))


def nightly(queue: Huey, job: Callable[[], R], *, name: str, hour: int, minute: int = 0) -> Any:
    """`job` once a night, at a time in UTC, and whenever it is enqueued by hand."""
    night = crontab(hour=str(hour), minute=str(minute))
    return queue.periodic_task(night, name=name)(with_fresh_connections(as_job(name, job)))


def _rescan() -> None:
    for line in rescan_sources().lines():
        logger.info("rescan: %s", line)


rescan = task(downloads, _rescan, name="rescan")
