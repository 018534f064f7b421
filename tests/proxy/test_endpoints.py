"""Every path that a child answers: who names the model, and what the child gets."""

from __future__ import annotations

import json

import pytest

from proxy.endpoints import CONTROLS, FORMS, FORWARDED, LOOKS
from scheduler.protocol import Filters, Refused

from .asking import Exchange, chat
from .fakes import Connection, Received


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b'{"from": "child"}')


def form(*parts: bytes, boundary: bytes = b"xyz") -> bytes:
    sections = [b"--" + boundary + b"\r\n" + part + b"\r\n" for part in parts]
    return b"".join([*sections, b"--" + boundary + b"--\r\n"])


def field(name: bytes, value: bytes) -> bytes:
    return b'Content-Disposition: form-data; name="%b"\r\n\r\n%b' % (name, value)


AUDIO = (
    b'Content-Disposition: form-data; name="file"; filename="model"\r\n'
    b"Content-Type: audio/wav\r\n\r\n" + b"\x00\r\n--xy\xff" * 5000
)
MULTIPART = [(b"content-type", b'multipart/form-data; boundary="xyz"')]


@pytest.mark.parametrize("path", FORWARDED)
async def test_a_body_names_the_model_and_reaches_the_child_untouched(house, path):
    body = json.dumps({"x": 1.0, "model": "m", "messages": []}, indent=3).encode()
    async with house(answers) as h:
        exchange = await Exchange(h.app, path, body=body, query=b"a=b").end()
        (received,) = h.child.received
        (asked,) = h.scheduler.asked

    assert (exchange.status, exchange.body) == (200, b'{"from": "child"}')
    assert received.line == f"POST {path}?a=b HTTP/1.1"
    assert received.body == body
    assert (asked.preset, asked.kind) == ("m", "post")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/completion", "/v1/messages"])
async def test_a_form_where_json_is_taken_is_refused_before_a_child_is_asked(house, path):
    async with house(answers) as h:
        exchange = await Exchange(h.app, path, body=chat(), headers=MULTIPART).end()

    assert exchange.status == 400
    assert exchange.json["error"]["message"] == f"{path} takes JSON, not a multipart form."
    assert h.scheduler.asked == []


@pytest.mark.parametrize("path", [*LOOKS, "/props"])
async def test_a_head_is_answered_as_a_get_is(house, path):
    async with house(answers) as h:
        exchange = await Exchange(h.app, path, method="HEAD", query=b"model=m", body=b"").end()
        (received,) = h.child.received

    assert exchange.status == 200
    assert exchange.header(b"content-length") == b"17"
    assert received.line == f"GET {path}?model=m HTTP/1.1"


@pytest.mark.parametrize("path", [*LOOKS, "/props"])
async def test_a_look_names_the_model_in_its_query_and_takes_no_slot(house, path):
    async with house(answers) as h:
        query = b"model=a%2Fb&autoload=false"
        exchange = await Exchange(h.app, path, method="GET", query=query, body=b"").end()
        (received,) = h.child.received
        (asked,) = h.scheduler.asked

    assert exchange.status == 200
    assert received.line == f"GET {path}?model=a%2Fb&autoload=false HTTP/1.1"
    assert (asked.preset, asked.kind, asked.autoload) == ("a/b", "get", False)


@pytest.mark.parametrize("path", LOOKS)
async def test_a_look_without_a_model_is_told_what_to_write(house, path):
    async with house(answers) as h:
        exchange = await Exchange(h.app, path, method="GET", body=b"").end()

    assert exchange.status == 400
    assert exchange.json["error"]["code"] == "model_missing"


@pytest.mark.parametrize("path", CONTROLS)
async def test_a_word_to_an_answer_under_way_waits_for_no_slot(house, path):
    async with house(answers) as h:
        exchange = await Exchange(h.app, path, body=chat("m")).end()
        (asked,) = h.scheduler.asked

    assert (exchange.status, asked.preset, asked.kind) == (200, "m", "get")


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize("first", [True, False])
async def test_a_form_names_the_model_wherever_it_stands_in_it(house, path, first):
    parts = [field(b"model", b"m"), AUDIO, field(b"language", b"en")]
    body = form(*(parts if first else reversed(parts)))
    async with house(answers) as h:
        exchange = await Exchange(h.app, path, body=body, headers=MULTIPART).end()
        (received,) = h.child.received
        (asked,) = h.scheduler.asked

    assert (exchange.status, asked.preset, asked.kind) == (200, "m", "post")
    assert received.body == body
    assert received.header("content-type") == MULTIPART[0][1].decode()


async def test_a_form_in_a_file_is_read_and_sent_as_one_in_memory(house):
    body = form(AUDIO, field(b"model", b"m"))
    async with house(answers, retry_body=1000) as h:
        exchange = await Exchange(h.app, FORMS[0], body=body, headers=MULTIPART).end()
        (received,) = h.child.received

    assert exchange.status == 200
    assert received.body == body


async def test_a_form_is_not_filtered(house):
    body = form(field(b"model", b"m"))
    async with house(answers) as h:
        h.scheduler.filters = Filters(set={"temperature": 0})
        exchange = await Exchange(h.app, FORMS[0], body=body, headers=MULTIPART).end()
        (received,) = h.child.received

    assert exchange.status == 200
    assert received.body == body


@pytest.mark.parametrize(
    ("body", "type", "code"),
    [
        (form(AUDIO), b"multipart/form-data; boundary=xyz", "model_missing"),
        (form(field(b"model", b"")), b"multipart/form-data; boundary=xyz", "model_missing"),
        (form(field(b"model", b"a"), field(b"model", b"a")), b"multipart/form-data; boundary=xyz",
         "invalid_request"),
        (form(field(b"model", b"\xff")), b"multipart/form-data; boundary=xyz", "invalid_request"),
        (form(field(b"model", b"a"))[:-8], b"multipart/form-data; boundary=xyz", "invalid_request"),
        (form(field(b"model", b"a")), b"multipart/form-data; boundary=other", "invalid_request"),
        (form(field(b"model", b"a")), b"multipart/form-data", "invalid_request"),
        (form(field(b"model", b"a")), b"multipart/form-data; boundary=" + b"x" * 500,
         "invalid_request"),
        (b"nonsense", b"multipart/form-data; boundary=xyz", "invalid_request"),
        (form(*[field(b"x", b"1")] * 1200), b"multipart/form-data; boundary=xyz",
         "invalid_request"),
        (form(field(b"model", b"x" * 100_000)), b"multipart/form-data; boundary=xyz",
         "model_not_found"),
    ],
)  # fmt: skip
async def test_a_form_that_cannot_be_read_is_refused_and_loads_nothing(house, body, type, code):
    async with house(answers) as h:
        headers = [(b"content-type", type)]
        exchange = await Exchange(h.app, FORMS[0], body=body, headers=headers).end()
        asked = h.scheduler.asked

    assert exchange.json["error"]["code"] == code
    assert asked == []


async def test_json_is_taken_where_forms_are(house):
    async with house(answers) as h:
        exchange = await Exchange(h.app, FORMS[0], body=chat("m")).end()

    assert exchange.status == 200


async def test_a_look_that_may_not_load_is_told_so_in_its_dialect(house):
    async with house(answers) as h:
        h.scheduler.refusal = Refused("model_not_loaded", "not loaded")
        query = b"model=m&autoload=0"
        exchange = await Exchange(h.app, "/slots", method="GET", query=query, body=b"").end()

    assert exchange.status == 400
    assert exchange.json["error"]["message"] == "model is not loaded"
