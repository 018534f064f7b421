"""The log: one line per event on stderr, for people (`text`) or for a collector (`json`).

Every line written while a request is answered carries the id that its client got.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any

from routerproj.lean_imports import taken_as_missing

with taken_as_missing("rich", "twisted"):  # an eighth of each process's start, and unused here
    import structlog
    from structlog.typing import EventDict, Processor, WrappedLogger

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Set by the guard around each request; empty outside one."""


def _add_request_id(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    current = request_id.get()
    if current:
        event.setdefault("request_id", current)
    return event


def _on_one_line(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """A message may hold what a client sent: a line of it must not pass for a line of ours."""
    message = event.get("event")
    if isinstance(message, str) and not message.isprintable():
        event["event"] = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)
    return event


class NotSaidTwice(logging.Filter):
    """Drops what a server says about a connection that the guard cut, and has said why."""

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.exc_info[0] if record.exc_info else None
        return kind is None or kind.__name__ != "ConnectionCut"


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        _add_request_id,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _on_one_line,
    ]


def _renderer(form: str) -> list[Processor]:
    if form == "json":
        return [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    return [
        structlog.dev.ConsoleRenderer(
            colors=False, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
        )
    ]


def logging_config(level: str, form: str) -> dict[str, Any]:
    """What Django's LOGGING wants. Lines of structlog and of the standard library look alike."""
    structlog.configure(
        processors=[*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": _shared(),
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    *_renderer(form),
                ],
            }
        },
        "filters": {"not said twice": {"()": NotSaidTwice}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "line",
                "filters": ["not said twice"],
            }
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # Django's own set-up would mail errors and print them a second time.
            "django": {"handlers": [], "level": level, "propagate": True},
            "django.server": {"handlers": [], "level": level, "propagate": True},
            # Their "started" and "shutting down" say what serve says already.
            "websockets": {"level": _at_least("WARNING", level)},
            "uvicorn.error": {"level": _at_least("WARNING", level)},
            "huey": {"level": _at_least("WARNING", level)},
            "daphne": {"level": _at_least("WARNING", level)},
            "asyncio": {"level": _at_least("WARNING", level)},
            "httpx2": {"level": _at_least("WARNING", level)},  # huggingface_hub's requests
        },
    }


def _at_least(least: str, level: str) -> str:
    """`level`, but never more talkative than `least` unless everything is wanted."""
    if level == "DEBUG":
        return level
    names = logging.getLevelNamesMapping()
    return max(least, level, key=lambda name: names[name])
