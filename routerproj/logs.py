"""The log: one line per event on stderr, for people (`text`) or for a collector (`json`).

Every line written while a request is answered carries the id that its client got, and as far as
they are known the public id of its key, its team and its model. No line holds a secret, and none
can be made by what a client sends.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from models_registry.lean_imports import taken_as_missing
from models_registry.log_redaction import Redaction, harmless_text
from proxy.log_context import of_request

with taken_as_missing("rich", "twisted"):  # an eighth of each process's start, and unused here
    import structlog
    from structlog.typing import EventDict, Processor, WrappedLogger

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FOLLOWING = "\n    "
"""How a record goes on that has several lines, such as a traceback: nothing that begins like this
passes for a record of its own."""

QUIET = {
    # Their "started" and "shutting down" say what serve says already.
    "websockets": "WARNING",
    "uvicorn.error": "WARNING",
    "huey": "WARNING",
    "daphne": "WARNING",
    "axes": "WARNING",  # each step of its own; failures remain
    "asyncio": "WARNING",
    "httpx2": "WARNING",  # huggingface_hub's requests
    "urllib3": "WARNING",
    "opentelemetry": "CRITICAL",  # scheduler/telemetry.py says once what it says with each try
}
"""Never more talkative than this, unless everything is wanted."""


_SENT_TO_COLLECTORS = re.compile(r"OTEL_EXPORTER_OTLP_(?:\w+_)?HEADERS").fullmatch


def levels_in(text: str) -> dict[str, str]:
    """`proxy=DEBUG, huey=INFO` as levels by logger. Raises ValueError."""
    levels = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, level = (word.strip() for word in part.partition("="))
        if not (name and equals and level.upper() in LEVELS):
            raise ValueError(f"{part!r} is not LOGGER=LEVEL, with a level of {', '.join(LEVELS)}")
        levels[name] = level.upper()
    return levels


def secrets_in(environment: Mapping[str, str], secret_key: str, keys: Sequence[str]) -> list[str]:
    """What the log must not say and nothing but its very text tells to be secret."""
    passwords = []
    for name in ("DATABASE_URL", "REDIS_URL", "CORRAL_UPSTREAM_PROXY"):
        try:
            passwords.append(urlsplit(environment.get(name, "")).password or "")
        except ValueError:
            continue  # the settings say what is wrong with it
    headers = [value for name, value in environment.items() if _SENT_TO_COLLECTORS(name)]
    told = [pair.partition("=")[2].strip() for pair in ",".join(headers).split(",")]
    tokens = [
        environment.get(name, "").strip() for name in ("HF_TOKEN", "CORRAL_OIDC_CLIENT_SECRET")
    ]
    return [secret_key, *keys, *passwords, *told, *tokens]


def _add_request(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    request = of_request.get()
    if request is not None:
        event.setdefault("request_id", request.request_id)
        for name in ("key", "team", "model"):
            if value := getattr(request, name):
                event.setdefault(name, value)
    return event


def _on_one_line(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """A message may hold what a client sent: a line of it must not pass for a line of ours."""
    message = event.get("event")
    if isinstance(message, str):
        event["event"] = harmless_text(message)
    return event


class SafeLines(structlog.stdlib.ProcessorFormatter):
    """A record as text, whatever is in its message, its fields and its traceback."""

    def __init__(self, *, redaction: Redaction, **formatting: Any) -> None:
        super().__init__(**formatting)
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        text = self._redaction(super().format(record))
        if text.isprintable():
            return text
        return FOLLOWING.join(map(harmless_text, text.split("\n")))


class NotSaidTwice(logging.Filter):
    """Drops what a server says about a connection that the guard cut, and has said why."""

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.exc_info[0] if record.exc_info else None
        return kind is None or kind.__name__ != "ConnectionCut"


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        _add_request,
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


def logging_config(
    level: str, form: str, levels: Mapping[str, str], secrets: Sequence[str]
) -> dict[str, Any]:
    """What Django's LOGGING wants. Lines of structlog and of the standard library look alike.
    `levels` are those of single loggers; what is in `secrets` is in no line."""
    structlog.configure(
        processors=[*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    # Django's own set-up would mail errors and print them a second time.
    loggers: dict[str, dict[str, Any]] = {
        name: {"handlers": [], "level": level, "propagate": True}
        for name in ("django", "django.server")
    }
    loggers |= {name: {"level": _at_least(least, level)} for name, least in QUIET.items()}
    for name, own in levels.items():
        loggers.setdefault(name, {})["level"] = own
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": SafeLines,
                "redaction": Redaction(secrets),
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
        "loggers": loggers,
    }


def _at_least(least: str, level: str) -> str:
    """`level`, but never more talkative than `least` unless everything is wanted."""
    return level if level == "DEBUG" else max(least, level, key=LEVELS.index)
