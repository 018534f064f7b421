"""A line of the log for each request, where somebody wants that."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from proxy.log_context import comes_from, is_for, of_request
from routerproj.guard import Guard, GuardConfig
from tests.django.asgi_exchange import Exchange, scope

CONFIG = GuardConfig(max_body=100, body_timeout_seconds=30.0, access_log=True)


async def model(scope: Any, receive: Any, send: Any) -> None:
    comes_from("abcdefgh", "blue")
    is_for("alpha")
    await send({"type": "http.response.start", "status": 201, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})


class Kept(logging.Handler):
    """The records of the access log, each with whose request it was."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        asked = of_request.get()
        assert asked is not None
        whose = {"request_id": asked.request_id, "key": asked.key, "model": asked.model}
        self.lines.append({**vars(record), **whose})


@pytest.fixture
def kept() -> Any:
    logger, handler = logging.getLogger("corral.access"), Kept()
    logger.addHandler(handler)
    logger.setLevel("INFO")
    yield handler
    logger.removeHandler(handler)
    logger.setLevel("NOTSET")


async def through(asked: dict[str, Any], config: GuardConfig) -> Exchange:
    exchange = Exchange()
    await Guard(model, config, lambda path: True)(asked, exchange.receive, exchange.send)
    return exchange


async def test_it_says_who_asked_for_what_and_what_became_of_it(kept):
    secret = {"query_string": b"key=S3cret"}
    exchange = await through({**scope(b"/v1/chat/completions"), **secret}, CONFIG)

    [line] = kept.lines
    assert line["request_id"] == exchange.headers[b"x-request-id"].decode()
    assert (line["method"], line["path"], line["status"]) == ("GET", "/v1/chat/completions", 201)
    assert (line["key"], line["model"], line["client"]) == ("abcdefgh", "alpha", "127.0.0.1")
    assert line["seconds"] >= 0
    assert "S3cret" not in str(line)


async def test_a_refused_request_has_its_line_too(kept):
    await through(scope(b"/v1/../admin/"), CONFIG)

    assert [line["status"] for line in kept.lines] == [400]


async def test_there_is_none_unless_it_is_asked_for(kept):
    await through(scope(), replace(CONFIG, access_log=False))

    assert kept.lines == []


async def test_nothing_of_a_request_is_left_behind(kept):
    await through(scope(), CONFIG)

    assert of_request.get() is None
