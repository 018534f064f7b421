"""Presets that run elsewhere: what their server is sent."""

from __future__ import annotations

import json

import pytest

from models_registry import kept_secrets
from scheduler.protocol import Filters

from .asking import chat
from .remote_house import ANSWER, answers, asked, gateway


async def test_it_gets_its_own_name_of_the_model_and_the_rest_as_it_came(house):
    body = b'{ "model":"ours", "n": 1.50, "messages": [ ] }'
    async with gateway(house, answers) as (h, remote):
        exchange = await asked(h, body)

    assert (exchange.status, exchange.body) == (200, ANSWER)
    [received] = remote.received
    assert json.loads(received.body) == {"model": "theirs", "n": 1.5, "messages": []}
    assert b"1.50" in received.body
    assert exchange.header(b"x-corral-filters") is None


async def test_filters_of_the_preset_count_there_too(house):
    async with gateway(house, answers) as (h, remote):
        h.scheduler.filters = Filters(["user"], {}, {"temperature": 0})
        exchange = await asked(h, chat(user="me"))

    assert json.loads(remote.received[0].body) == {
        "model": "theirs",
        "messages": [],
        "temperature": 0,
    }
    assert exchange.header(b"x-corral-filters") == b"stripped=user; set=temperature"


async def test_the_clients_key_and_all_that_tells_of_it_stay_here(house, tmp_path, settings):
    settings.CORRAL_VAR = tmp_path
    reference = kept_secrets.keep("sk-remote")
    sent = [
        (b"authorization", b"Bearer ck_client"),
        (b"x-api-key", b"ck_client"),
        (b"cookie", b"session=1"),
        (b"user-agent", b"someone/1"),
        (b"x-forwarded-for", b"10.1.2.3"),
        (b"referer", b"http://intranet/"),
        (b"content-type", b"application/json"),
        (b"x-request-id", b"mine-1"),
        (b"openai-beta", b"assistants=v2"),
        (b"connection", b"keep-alive, x-secret"),
        (b"x-secret", b"s"),
    ]
    async with gateway(house, answers, key=reference) as (h, remote):
        await asked(h, headers=sent)

    headers = dict(remote.received[0].headers)
    assert headers.pop("host") == f"localhost:{remote.port}"
    assert headers.pop("via").startswith("1.1 corral-")
    headers.pop("content-length")
    assert headers == {
        "authorization": "Bearer sk-remote",
        "content-type": "application/json",
        "openai-beta": "assistants=v2",
        "user-agent": "corral",
        "x-request-id": "mine-1",
    }


@pytest.mark.parametrize(
    ("base", "path", "target"),
    [
        ("", "/v1/chat/completions", "/v1/chat/completions"),
        ("/v1", "/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/", "/chat/completions", "/v1/chat/completions"),
        ("/v1beta/openai", "/v1/embeddings", "/v1beta/openai/embeddings"),
        ("/v1", "/tokenize", "/tokenize"),
        ("/llm/v1", "/v1/rerank", "/llm/v1/rerank"),
    ],
)
async def test_its_address_is_made_as_clients_of_openai_make_it(house, base, path, target):
    async with gateway(house, answers, path=base) as (h, remote):
        exchange = await asked(h, path=path, query=b"autoload=1&api-version=3")

    assert exchange.status == 200
    assert remote.received[0].line == f"POST {target}?api-version=3 HTTP/1.1"


async def test_a_form_goes_on_with_another_name_and_every_other_byte_as_it_was(house):
    form = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        b"RIFF\r\n--\x00\xff\r\n"
        b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nours\r\n'
        b'--b\r\nContent-Disposition: form-data; name="language"\r\n\r\nde\r\n--b--\r\n'
    )
    told = [(b"content-type", b"multipart/form-data; boundary=b")]
    for settings in ({}, {"retry_body": 16}):
        async with gateway(house, answers, **settings) as (h, remote):
            exchange = await asked(h, form, path="/v1/audio/transcriptions", headers=told)

        assert exchange.status == 200
        assert remote.received[0].body == form.replace(b"ours", b"theirs")


async def test_a_large_body_is_sent_from_its_file_and_nothing_is_left_of_it(house):
    text = "x" * (3 << 20)
    async with gateway(house, answers, retry_body=1 << 16) as (h, remote):
        exchange = await asked(h, chat(text=text))
        room = h.app._room

        assert exchange.status == 200
        assert json.loads(remote.received[0].body)["text"] == text
        assert (room.held, room.spooled) == (0, 0)


async def test_its_props_can_be_looked_at_and_nothing_more_of_it(house):
    async with gateway(house, answers) as (h, remote):
        props = await asked(h, b"", method="GET", path="/props", query=b"model=ours")
        slots = await asked(h, b"", method="GET", path="/slots", query=b"model=ours")

    assert props.status == 200
    assert [received.line for received in remote.received] == ["GET /props?model=theirs HTTP/1.1"]
    assert (slots.status, slots.json["error"]["code"]) == (501, "not_supported")
    assert h.scheduler.held == []


async def test_a_request_that_has_come_back_is_refused(house):
    async with gateway(house, answers) as (h, remote):
        await asked(h)
        via = remote.received[0].header("via").encode()
        exchange = await asked(h, headers=[(b"via", b"1.0 other, " + via)])

    assert (exchange.status, exchange.json["error"]["code"]) == (508, "request_loops")
    assert len(remote.received) == 1


async def test_a_request_that_came_through_another_gateway_is_passed_on_with_its_way(house):
    async with gateway(house, answers) as (h, remote):
        await asked(h, headers=[(b"via", b"1.1 corral-other")])

    assert remote.received[0].header("via").startswith("1.1 corral-other, 1.1 corral-")
