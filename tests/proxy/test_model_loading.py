"""POST /models/load and /models/unload."""

from __future__ import annotations

import json

import pytest

from scheduler.protocol import Refused

from .asking import Exchange
from .fakes import Connection, Received


async def unused(received: Received, child: Connection) -> None:
    raise AssertionError("nothing is asked of a child")


def named(model: object) -> bytes:
    return json.dumps({"model": model}).encode()


async def test_a_load_is_queued_like_a_request(house):
    async with house(unused) as h:
        exchange = await Exchange(h.app, "/models/load", body=named("m")).end()

    assert (exchange.status, exchange.json) == (200, {"success": True})
    assert h.scheduler.loads == ["m"]
    assert h.notes.noted == [("loaded", "m", "models", "anybody (--no-auth)")]


@pytest.mark.parametrize(
    ("path", "loaded", "message"),
    [
        ("/models/load", {"m"}, "model is already running"),
        ("/models/unload", set(), "model is not running"),
    ],
)
async def test_what_is_so_already_is_said_in_llama_cpps_words(house, path, loaded, message):
    async with house(unused) as h:
        h.scheduler.loaded = loaded
        exchange = await Exchange(h.app, path, body=named("m")).end()

    assert exchange.status == 400
    assert exchange.json["error"]["message"] == message
    assert h.notes.noted == []


async def test_an_unload_where_no_keys_are_asked_for(house):
    async with house(unused) as h:
        h.scheduler.loaded = {"m"}
        exchange = await Exchange(h.app, "/models/unload", body=named("m")).end()

    assert (exchange.status, exchange.json) == (200, {"success": True})


DEEP = b'{"x":' + b"[" * 5000 + b"]" * 5000 + b',"model":"tiny"}'


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", named(""), named(7), b"{" * 9, DEEP])
async def test_a_body_that_names_no_model_does_nothing(house, body):
    async with house(unused) as h:
        exchange = await Exchange(h.app, "/models/load", body=body).end()

    assert exchange.status == 400
    assert h.scheduler.loads == []


async def test_an_unknown_model_is_refused(house):
    async with house(unused) as h:
        h.scheduler.refusal = Refused("model_not_found", "no model is called 'x'")
        exchange = await Exchange(h.app, "/models/load", body=named("x")).end()

    assert exchange.status == 400
    assert exchange.json["error"]["code"] == "model_not_found"
    assert exchange.json["error"]["message"] == "no model is called 'x'"
