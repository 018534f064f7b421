"""Between two dialects: what is asked in one and known in another, and errors on their way back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.protocol import Filters, Remote

from .asking import Exchange, chat
from .fakes import Connection, Received
from .ollama_child import answers

HI = [{"role": "user", "content": "Hello"}]
FORM = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}


async def body_at_the_child(
    house: Any, path: str, filters: Filters | None = None, **body: Any
) -> Any:
    async with house(answers({})) as h:
        h.scheduler.filters = filters
        exchange = await Exchange(h.app, path, body=chat(**body)).end()
        room = h.app._room
        assert (room.held, room.spooled) == (0, 0)
    assert exchange.status == 200
    return exchange, json.loads(h.child.received[0].body)


async def test_the_form_of_a_response_is_said_in_the_engines_words(house):
    exchange, got = await body_at_the_child(
        house, "/v1/responses", Filters(defaults={"top_k": 3}), text={"format": FORM}
    )

    wish = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
    assert got["response_format"] == wish
    assert got["text"] == {"format": FORM}
    assert got["top_k"] == 3
    assert exchange.header(b"x-corral-filters") == b"defaulted=top_k"


async def test_no_choice_of_tools_leaves_them_out(house):
    _, got = await body_at_the_child(
        house, "/v1/messages", tools=[{"name": "t"}], tool_choice={"type": "none"}
    )

    assert got == {"model": "tiny", "messages": []}


async def test_other_paths_are_left_alone(house):
    body = {"text": {"format": FORM}, "background": True, "tool_choice": {"type": "none"}}
    _, got = await body_at_the_child(house, "/v1/chat/completions", **body)

    assert got == {"model": "tiny", "messages": [], **body}


async def test_what_the_engine_has_no_word_for_is_refused_and_the_lease_ends(house):
    async with house(answers({})) as h:
        exchange = await Exchange(h.app, "/v1/responses", body=chat(background=True)).end()

        [lease] = h.scheduler.leases
        assert (lease.released, lease.abandoned, lease.tokens) == (True, False, (0, 0, 0))
    assert (exchange.status, exchange.json["error"]["code"]) == (400, "invalid_request")
    assert h.child.received == []


async def test_a_remote_server_may_know_more_words(house):
    async with house(answers({})) as h:
        h.scheduler.remotes = [Remote("http://127.0.0.1:1")]
        exchange = await Exchange(h.app, "/v1/responses", body=chat(background=True)).end()

    assert exchange.json["error"]["code"] == "upstream_unavailable"  # it was asked for


def failing(status: str, message: str, **more: Any) -> Any:
    return answers({"error": {"code": int(status[:3]), "message": message, **more}}, status=status)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
async def test_a_childs_error_has_anthropics_form_on_its_path(house, path):
    script = failing("400 Bad Request", "too long", type="exceed_context_size_error", n_ctx=8192)
    async with house(script) as h:
        exchange = await Exchange(h.app, path, body=chat()).end()

    assert exchange.status == 400
    assert exchange.header(b"content-length") == str(len(exchange.body)).encode()
    error = {"type": "invalid_request_error", "message": "too long", "code": 400, "n_ctx": 8192}
    assert exchange.json == {"type": "error", "error": error}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/chat/completions", "invalid_request_error"),
        ("/v1/responses", "invalid_request_error"),
        ("/v1/messages", "invalid_request_error"),
    ],
)
async def test_what_the_engine_cannot_take_is_the_clients_mistake(house, path, kind):
    message = "image input is not supported - hint: you may need to provide the mmproj"
    async with house(failing("500 Oops", message, type="server_error")) as h:
        exchange = await Exchange(h.app, path, body=chat()).end()

    assert exchange.status == 400
    assert exchange.json["error"]["message"] == message
    assert exchange.json["error"]["type"] == kind


async def test_so_it_is_for_ollamas_clients(house):
    message = "Failed to load image or audio file"
    async with house(failing("500 Oops", message, type="server_error")) as h:
        exchange = await Exchange(h.app, "/api/chat", body=chat(messages=HI)).end()

    assert (exchange.status, exchange.json) == (400, {"error": message})


async def test_a_failure_of_the_engine_stays_one(house):
    script = failing("500 Oops", "Compute error.", type="server_error")
    for path, kind in (("/v1/chat/completions", "server_error"), ("/v1/messages", "api_error")):
        async with house(script) as h:
            exchange = await Exchange(h.app, path, body=chat()).end()

        assert exchange.status == 500
        assert exchange.json["error"]["type"] == kind


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"error","error":{"type":"overloaded_error","message":"x"},"request_id":"r"}',
        b"<html>nothing of the kind",
        b'{"error":"in one word"}',
        b'["error"]',
    ],
)
async def test_an_error_of_another_form_passes_as_it_is(house, body):
    async def script(received: Received, child: Connection) -> None:
        await child.answer(body, status="529 Overloaded")

    async with house(script) as h:
        exchange = await Exchange(h.app, "/v1/messages", body=chat()).end()

    assert (exchange.status, exchange.body) == (529, body)
