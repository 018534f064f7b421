from __future__ import annotations

import logging

import pytest

from scheduler.protocol import Refused

from .asking import Exchange, chat
from .fakes import Connection, Received


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b"{}")


async def test_an_unknown_model_is_404_for_openai_clients(house):
    async with house(answers) as h:
        h.scheduler.refusal = Refused("model_not_found", "no model is called 'x'; there is 'y'")
        exchange = await Exchange(h.app, body=chat("x")).end()

    assert exchange.status == 404
    assert exchange.json == {
        "error": {
            "message": "no model is called 'x'; there is 'y'",
            "type": "not_found_error",
            "param": "model",
            "code": "model_not_found",
        }
    }
    assert exchange.header(b"x-should-retry") == b"false"


async def test_an_unknown_model_is_400_in_llama_cpps_words_on_its_paths(house):
    async with house(answers) as h:
        h.scheduler.refusal = Refused("model_not_found", "no model is called 'x'; there is 'y'")
        exchange = await Exchange(h.app, "/chat/completions", body=chat("x")).end()

    assert exchange.status == 400
    assert exchange.json == {
        "error": {
            "message": "model 'x' not found",
            "type": "invalid_request_error",
            "code": "model_not_found",
            "status": 400,
        }
    }


async def test_a_name_that_is_too_long_to_be_one_is_shown_in_part(house):
    async with house(answers) as h:
        exchange = await Exchange(h.app, "/completion", body=chat("x" * 5000)).end()

    assert exchange.status == 400
    assert exchange.json["error"]["message"] == (
        f"There is no model '{'x' * 40}\u2026': names have up to 200 characters."
    )


async def test_a_missing_model_is_said_in_llama_cpps_words_on_its_paths(house):
    async with house(answers) as h:
        exchange = await Exchange(h.app, "/completion", body=b"{}").end()

    assert exchange.status == 400
    assert exchange.json["error"]["message"] == "model name is missing from the request"
    assert exchange.json["error"]["code"] == "model_missing"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/completions"])
async def test_what_waiting_cures_says_how_long_to_wait(house, path):
    async with house(answers) as h:
        h.scheduler.refusal = Refused("queue_full", "too many wait", retry_after_seconds=0.2)
        exchange = await Exchange(h.app, path, body=chat()).end()

    assert exchange.status == 503
    assert exchange.header(b"retry-after") == b"1"
    assert exchange.header(b"x-should-retry") is None
    assert exchange.json["error"]["code"] == "queue_full"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/completions"])
@pytest.mark.parametrize("code", ["model_queue_full", "tenant_queue_full"])
@pytest.mark.parametrize(("seconds", "told"), [(0.0, b"1"), (41.0, b"41"), (41.01, b"42")])
async def test_a_full_queue_of_ones_own_is_a_429_that_says_when_to_come_again(
    house, path, code, seconds, told
):
    async with house(answers) as h:
        h.scheduler.refusal = Refused(code, "too many wait", retry_after_seconds=seconds)
        exchange = await Exchange(h.app, path, body=chat()).end()

    assert exchange.status == 429
    assert exchange.header(b"retry-after") == told
    assert exchange.header(b"x-should-retry") is None
    assert exchange.json["error"]["code"] == code
    assert exchange.json["error"]["type"] == "rate_limit_error"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/completions"])
async def test_a_model_that_is_too_large_is_not_worth_another_try(house, path):
    async with house(answers) as h:
        h.scheduler.refusal = Refused("model_too_large", "it lacks 900 MiB")
        exchange = await Exchange(h.app, path, body=chat()).end()

    assert exchange.status == 503
    assert exchange.header(b"retry-after") is None
    assert exchange.header(b"x-should-retry") == b"false"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/nothing"),
        ("GET", "/v1/models/"),
        ("GET", "/v1"),
        ("GET", "/v1/responses/x"),
        ("POST", "/v1/responses/x/cancel"),
        ("POST", "/v1/images/generations"),
        ("POST", "/v1/audio/speech"),
        ("POST", "/v1/moderations"),
        ("POST", "/v1/files"),
        ("POST", "/v1/batches"),
    ],
)
async def test_an_unknown_path_is_a_json_404(house, method, path):
    async with house(answers) as h:
        exchange = await Exchange(h.app, path, method=method).end()

    assert exchange.status == 404
    assert exchange.json["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", b"POST"),
        ("PUT", "/v1/embeddings", b"POST"),
        ("POST", "/v1/models", b"GET, HEAD"),
        ("DELETE", "/health", b"GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_a_405_that_names_the_right_ones(house, method, path, allowed):
    async with house(answers) as h:
        exchange = await Exchange(h.app, path, method=method).end()

    assert exchange.status == 405
    assert exchange.header(b"allow") == allowed
    assert exchange.json["error"]["code"] == "method_not_allowed"


async def test_the_unexpected_is_logged_with_the_request_id_that_the_client_got(house, caplog):
    async with house(answers) as h:
        h.scheduler.addresses.clear()  # the stand-in breaks
        with caplog.at_level(logging.ERROR):
            exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.status == 500
    assert exchange.json["error"]["code"] == "internal_error"
    request_id = exchange.header(b"x-request-id")
    assert request_id is not None
    assert request_id.decode() in caplog.text
    assert "IndexError" in caplog.text
    assert "IndexError" not in exchange.body.decode()


@pytest.mark.parametrize(
    ("query", "asked"),
    [(b"", True), (b"autoload=0", False), (b"autoload=1", True), (b"autoload=", True)],
)
async def test_autoload_is_asked_for_as_in_llama_cpp(house, query, asked):
    async with house(answers) as h:
        await Exchange(h.app, body=chat(), query=query).end()

    assert h.scheduler.asked[0].autoload is asked


async def test_an_error_is_said_in_anthropics_words_on_its_paths(house):
    async with house(answers) as h:
        h.scheduler.refusal = Refused("queue_full", "too many wait", retry_after_seconds=2.0)
        exchange = await Exchange(h.app, "/v1/messages", body=chat()).end()

    assert exchange.status == 503
    assert exchange.header(b"retry-after") == b"2"
    assert exchange.json == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "too many wait", "code": "queue_full"},
    }


async def test_a_stream_of_anthropics_that_breaks_ends_in_its_error_event(house):
    async def dies(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(b"event: message_start\ndata: {}\n\nevent: content_bl")

    async with house(dies) as h:
        exchange = await Exchange(h.app, "/v1/messages", body=chat()).end()

    whole, error = exchange.body.split(b"\n\n")[:2]
    assert whole == b"event: message_start\ndata: {}"
    assert error.startswith(b'event: error\ndata: {"type":"error","error":{"type":"api_error"')


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/props"),
        ("POST", "/lora-adapters"),
        ("POST", "/slots/0"),
        ("GET", "/tools"),
        ("POST", "/tools"),
        ("GET", "/cors-proxy"),
        ("POST", "/cors-proxy"),
    ],
)
async def test_what_is_refused_for_good_is_501(house, method, path):
    async with house(answers) as h:
        exchange = await Exchange(h.app, path, method=method, body=chat()).end()

    assert exchange.status == 501
    assert exchange.json["error"]["code"] == "not_supported"
    assert exchange.header(b"x-should-retry") == b"false"
    assert h.scheduler.asked == []
