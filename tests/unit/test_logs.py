"""The log: what each line carries, and what nobody can make of it."""

from __future__ import annotations

import io
import json
import logging
import logging.config
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proxy.log_context import LogContext, comes_from, is_for, of_request
from routerproj.logs import levels_in, logging_config, secrets_in

KEY = "ck_abcdefgh_" + "S3cret-" * 6
Written = Callable[[], str]


@pytest.fixture
def written() -> Iterator[Callable[..., Written]]:
    """`written(form)` lets the loggers below `logs-test` write as the settings say."""
    logger = logging.getLogger("logs-test")

    def begin(form: str, secrets: tuple[str, ...] = ()) -> Written:
        config = logging_config("INFO", form, {}, secrets)
        made = dict(config["formatters"]["line"])
        kind = made.pop("()")
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(kind(**made))
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel("INFO")
        return stream.getvalue

    yield begin
    logger.handlers.clear()


@pytest.fixture
def request_of_alpha() -> Iterator[None]:
    token = of_request.set(LogContext("req-1"))
    comes_from("abcdefgh", "blue")
    is_for("alpha")
    yield
    of_request.reset(token)


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.usefixtures("request_of_alpha")
def test_a_line_about_a_request_says_whose_it_is_and_for_which_model(written):
    text = written("json")

    logging.getLogger("logs-test").info("the answer was cut")

    [line] = lines_of(text())
    told = {name: line[name] for name in ("event", "request_id", "key", "team", "model")}
    assert told == {
        "event": "the answer was cut",
        "request_id": "req-1",
        "key": "abcdefgh",
        "team": "blue",
        "model": "alpha",
    }


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_line_holds_a_secret_wherever_it_stands(written, form):
    text = written(form, ("open-sesame",))
    logger = logging.getLogger("logs-test")

    logger.info("asked with %s", KEY, extra={"header": f"Bearer {KEY}", "plain": "open-sesame"})
    try:
        raise ValueError(f"Authorization: Bearer {KEY}")
    except ValueError:
        logger.exception("it failed")

    assert "S3cret" not in text()
    assert "open-sesame" not in text()
    assert "ck_abcdefgh_[redacted]" in text()
    assert "Traceback" in text() or "ValueError" in text()


FORGED = "x\n2026-01-01T00:00:00Z [info] all is well [scheduler]\r\x1b[2J\u202e"


def test_a_clients_text_makes_no_line_of_its_own(written):
    text = written("text")
    logger = logging.getLogger("logs-test")

    logger.info("no model %s", FORGED, extra={"field": FORGED})
    logger.info("no model %s", FORGED)
    try:
        raise ValueError(FORGED)
    except ValueError:
        logger.exception("it failed")

    lines = text().splitlines()
    assert [line for line in lines if line.startswith("2026-01-01")] == []
    beginnings = [line for line in lines if not line.startswith("    ")]
    assert len(beginnings) == 3
    assert all(line.isprintable() for line in lines)


def test_nor_in_json(written):
    text = written("json")

    logging.getLogger("logs-test").info("no model %s", FORGED)

    [line] = lines_of(text())
    assert "\\n2026-01-01" in line["event"]


def test_single_loggers_have_levels_of_their_own():
    levels = levels_in("proxy=debug, uvicorn.error=INFO,,")

    loggers = logging_config("WARNING", "text", levels, ())["loggers"]

    assert loggers["proxy"]["level"] == "DEBUG"
    assert loggers["uvicorn.error"]["level"] == "INFO"
    assert loggers["huey"]["level"] == "WARNING"


@pytest.mark.parametrize("text", ["proxy", "proxy=LOUD", "=INFO"])
def test_levels_that_are_none_are_refused(text):
    with pytest.raises(ValueError, match="LOGGER=LEVEL"):
        levels_in(text)


def test_secrets_of_the_settings_are_known_by_their_text():
    environment = {
        "DATABASE_URL": "postgres://corral:of-database@db/corral",
        "REDIS_URL": "redis://:of-redis@host",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-team=blue, authorization=of-collector",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "authorization=of-traces",
        "HF_TOKEN": "of-the-hub",
        "CORRAL_OIDC_CLIENT_SECRET": "of-the-provider",
    }

    found = secrets_in(environment, "of-django", ["of-serve"])

    things = "database redis collector traces the-hub the-provider django serve"
    assert {f"of-{thing}" for thing in things.split()} <= set(found)
