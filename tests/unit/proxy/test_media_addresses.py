"""Where a body names an image, a sound or a film by an address: in every dialect, however written
it is."""

from __future__ import annotations

import json
import tempfile
from mmap import ACCESS_READ, mmap
from typing import Any

import pytest

from proxy.media import looking
from proxy.media.fetching import Fetched
from proxy.media.inlining import inlined
from proxy.media.looking import Address, TooMany, addresses_in

URL = "http://127.0.0.1:1/secret.png?token=x"
DATA = "data:image/png;base64,iVBORw0KGgo="
GIVEN = Fetched("image/png", "iVBORw0KGgo=")


def chat(*parts: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": list(parts)}]}


def named(url: str) -> list[tuple[str, dict[str, Any]]]:
    """One body for each place in which a dialect has media."""
    source = {"type": "image", "source": {"type": "url", "url": url}}
    part = {"type": "image_url", "image_url": {"url": url}}
    item = {"type": "input_image", "image_url": url}
    audio = {"type": "input_audio", "input_audio": {"url": url, "format": "wav"}}
    tool = {"type": "tool_result", "tool_use_id": "t", "content": [source]}
    output = {"type": "function_call_output", "call_id": "c", "output": [item]}
    screen = {"type": "computer_call_output", "output": {"image_url": url}}
    document = {"type": "document", "source": {"type": "content", "content": [source]}}
    return [
        ("image_url", chat({"type": "text", "text": "x"}, part)),
        ("image_url", chat({"type": "image_url", "image_url": url})),
        ("image", chat({"type": "image", "image": url})),
        ("input_audio", chat(audio)),
        ("input_audio", chat({"type": "input_audio", "input_audio": {"data": url}})),
        ("audio_url", chat({"type": "audio_url", "audio_url": {"url": url}})),
        ("input_video", chat({"type": "input_video", "input_video": {"data": url}})),
        ("video_url", chat({"type": "video_url", "video_url": {"url": url}})),
        ("source", chat(source)),
        ("source", chat(tool)),
        ("source", chat(document)),
        ("image_url", {"input": [{"role": "user", "content": [item]}]}),
        ("image_url", {"input": [output]}),
        ("image_url", {"input": [screen]}),
        ("image_url", {"input": {"content": [part]}}),
        ("image_url", {"input": ["a text", {"content": [part]}]}),
        ("image_url", {"content": [{"content": [part]}]}),
        ("image_url", {"prompt": [1, {"content": [part]}]}),
        ("image", {"query": "q", "documents": ["d", {"image": url}]}),
        # Whatever else there is, or is wrong, beside it
        ("image_url", {"messages": [7, None, "x", {"content": [[part]]}]}),
        ("image_url", {"messages": {"content": part}}),
        ("image_url", chat({"type": "text", "image_url": {"url": url, "detail": "low"}})),
    ]


@pytest.mark.parametrize(("member", "body"), named(URL))
def test_an_address_is_found_in_each_place_of_each_dialect(member: str, body: Any) -> None:
    [found] = addresses_in(json.dumps(body).encode())

    assert (found.member, found.url) == (member, URL)


@pytest.mark.parametrize(("member", "body"), named(DATA) + named("iVBOR/w0KG+go_-="))
def test_media_themselves_are_no_address(member: str, body: Any) -> None:
    assert addresses_in(json.dumps(body).encode()) == []


@pytest.mark.parametrize(
    "body",
    [
        rb'{"messages":[{"content":[{"\u0069mage_url":{"url":"http://x"}}]}]}',
        rb'{"messages":[{"content":[{"image_url":{"\u0075\u0072l":"\u0068ttp:\/\/x"}}]}]}',
        rb'{"m\u0065ssages":[{"c\u006fntent":[{"image\u005Furl":{"url":"http://x"}}]}]}',
        b'{"messages":[{"content":[{"image_url":{"url":"data:,"},"image_url":{"url":"http://x"}}]}]}',
        b'{"messages":[],"messages":[{"content":"x","content":[{"image_url":"http://x"}]}]}',
        b' {\n"messages" : [ { "content" :\t[ { "image_url" : { "url" : "http://x" } } ] } ] } ',
    ],
)
def test_no_way_of_writing_json_hides_one(body: bytes) -> None:
    assert [each.url for each in addresses_in(body)] == ["http://x"]


@pytest.mark.parametrize(
    "url", ["HTTP://x", "file:///etc/passwd", "ftp://x/y", "//x/y.png", "a.png"]
)
def test_nothing_but_data_passes_for_data(url: str) -> None:
    body = chat({"type": "image_url", "image_url": {"url": url}})

    assert addresses_in(json.dumps(body).encode()) == [Address("image_url", "image", url)]


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": f"What is on {URL}, by image_url?"}]},
        chat({"type": "text", "text": URL}),
        chat(
            {
                "type": "tool_use",
                "name": "look",
                "input": {"image_url": URL, "source": {"url": URL}},
            }
        ),
        chat({"type": "search_result", "source": URL, "content": [{"type": "text", "text": URL}]}),
        chat({"type": "document", "source": {"type": "text", "data": f"see: {URL}"}}),
        {**chat(), "tools": [{"parameters": {"properties": {"image_url": {"default": URL}}}}]},
        {**chat(), "metadata": {"image_url": URL}, "mcp_servers": [{"type": "url", "url": URL}]},
        {"input": [URL, URL], "model": "m"},
        {"input": [[1, 2], [3]], "prompt": [1, 2]},
        {"messages": None, "input": 3, "content": {"content": {"content": 1}}},
        {"query": URL, "documents": [URL, {"text": URL}]},
    ],
)
def test_what_is_only_said_or_handed_to_a_tool_is_no_address(body: Any) -> None:
    assert addresses_in(json.dumps(body).encode()) == []


def test_a_body_that_is_no_object_has_none() -> None:
    assert [addresses_in(body) for body in (b"[1]", b"3", b"null")] == [[], [], []]


def test_a_body_in_a_file_can_be_closed_after_it_was_looked_at() -> None:
    body = json.dumps(chat({"type": "image_url", "image_url": {"url": URL}})).encode()
    with tempfile.TemporaryFile() as file:
        file.write(body)
        file.flush()
        with mmap(file.fileno(), len(body), access=ACCESS_READ) as view:
            assert [each.url for each in addresses_in(view)] == [URL]
            assert b"http" not in inlined(view, {URL: GIVEN})


def test_a_large_body_of_nothing_but_objects_is_not_taken_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(looking, "LARGE", 100)
    monkeypatch.setattr(looking, "MOST_OBJECTS", 50)

    with pytest.raises(TooMany):
        addresses_in(b'{"messages":[%s]}' % b",".join([b"{}"] * 60))
    assert addresses_in(b'{"messages":[%s]}' % b",".join([b"{}"] * 40)) == []


@pytest.mark.parametrize(("member", "body"), named(URL))
def test_what_was_fetched_stands_in_the_place_of_its_address(member: str, body: Any) -> None:
    told = inlined(json.dumps(body).encode(), {URL: GIVEN})

    assert addresses_in(told) == []
    assert b"127.0.0.1" not in told
    assert told.count(b"iVBORw0KGgo=") == 1


def test_an_image_of_anthropics_becomes_its_other_form() -> None:
    body = chat({"type": "image", "source": {"type": "url", "url": URL}, "cache_control": {"x": 1}})

    told = json.loads(inlined(json.dumps(body).encode(), {URL: GIVEN}))

    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    block = {"type": "image", "source": source, "cache_control": {"x": 1}}
    assert told["messages"][0]["content"] == [block]


def test_all_else_in_the_body_stays_as_it_was_written() -> None:
    rest = b'"temperature":0.70,"seed":18446744073709551615,"x":{"image_url":"http://y"}'
    body = b'{%s,"messages":[{"content":[{"image_url":{"detail":1.50,"url":"%s"}}]}]}'

    told = inlined(body % (rest, URL.encode()), {URL: GIVEN})

    assert told == body % (rest, DATA.encode())
