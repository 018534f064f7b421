"""Ollama's requests between a client and a scripted child."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime

import pytest

from proxy.scopes import Scope
from scheduler.protocol import Filters

from .asking import Exchange, until
from .fakes import Connection, Received
from .ollama_child import (
    COUNTS,
    END,
    HELLO,
    HI,
    answers,
    asking,
    delta,
    event,
    lines_of,
    streams,
    text,
)
from .test_allowed import Key


async def test_a_stream_of_events_is_told_line_by_line_with_the_childs_own_figures(house):
    async with house(streams(*HELLO)) as at:
        exchange = await asking(at.app, messages=HI).end()

    assert exchange.status == 200
    assert exchange.header(b"content-type") == b"application/x-ndjson"
    *chunks, last = lines_of(exchange.body)
    assert [chunk["message"] for chunk in chunks] == [
        {"role": "assistant", "content": "Hel"},
        {"role": "assistant", "content": "lo"},
    ]
    assert {chunk["model"] for chunk in chunks} == {"tiny"}
    assert all(datetime.fromisoformat(chunk["created_at"]) for chunk in chunks)
    assert (last["done"], last["done_reason"]) == (True, "stop")
    assert COUNTS.items() <= last.items()
    assert last["total_duration"] >= last["load_duration"] >= 0
    assert at.scheduler.leases[0].tokens == (7, 3, 2)


async def test_each_line_comes_with_its_event(house):
    go_on = asyncio.Event()

    async def script(request: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(HELLO[1])
        await go_on.wait()
        for part in HELLO[2:]:
            await child.say(part)
        await child.finish()

    async with house(script) as at:
        exchange = asking(at.app, messages=HI)
        await until(lambda: exchange.body)
        assert lines_of(exchange.body)[0]["message"]["content"] == "Hel"
        go_on.set()
        await exchange.end()

    assert lines_of(exchange.body)[-1]["done"]


async def test_without_a_stream_all_is_one_object(house):
    async with house(streams(*HELLO)) as at:
        exchange = await asking(at.app, messages=HI, stream=False).end()

    assert exchange.header(b"content-type") == b"application/json; charset=utf-8"
    assert exchange.json["message"] == {"role": "assistant", "content": "Hello"}
    assert exchange.json["done"] is True
    assert COUNTS.items() <= exchange.json.items()


async def test_the_child_gets_openais_request_and_none_of_the_clients_secrets(house):
    async with house(streams(*HELLO)) as at:
        headers = [(b"authorization", b"Bearer x"), (b"content-type", b"text/plain")]
        await asking(at.app, messages=HI, headers=headers, options={"num_ctx": 9}).end()

    received = at.child.received[0]
    assert received.line == "POST /v1/chat/completions HTTP/1.1"
    assert received.header("content-type") == "application/json"
    assert received.header("authorization") is None
    assert json.loads(received.body) == {
        "model": "tiny",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": HI,
    }


async def test_options_that_would_load_the_model_anew_are_told_in_a_header(house):
    async with house(streams(*HELLO)) as at:
        asked = {"num_ctx": 32768, "num_gpu": 0, "temperature": 0}
        for stream in (True, False):
            exchange = await asking(at.app, messages=HI, options=asked, stream=stream).end()
            assert exchange.header(b"x-corral-ignored-options") == b"num_ctx, num_gpu"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_keep_alive_of_a_key_that_may_not_load_does_not_count_and_that_is_told(
    house, stream
):
    key = Key(scopes=frozenset({Scope.INFER}))
    async with house(streams(*HELLO), keys=key) as at:
        asked = {"messages": HI, "stream": stream, "options": {"num_ctx": 9}}
        with_it = await asking(at.app, keep_alive="5m", **asked).end()
        without = await asking(at.app, **asked).end()

    assert at.scheduler.wishes == []
    assert with_it.header(b"x-corral-ignored-options") == b"num_ctx, keep_alive"
    assert with_it.header(b"x-corral-lacks-scope") == b"load"
    assert without.header(b"x-corral-ignored-options") == b"num_ctx"
    assert without.header(b"x-corral-lacks-scope") is None


async def test_an_empty_request_tells_it_as_well_and_one_that_lets_go_is_refused(house):
    async with house(streams(), keys=Key(scopes=frozenset({Scope.INFER}))) as at:
        loads = await asking(at.app, keep_alive="5m").end()
        lets_go = await asking(at.app, keep_alive=0).end()

    assert loads.json["done_reason"] == "load"
    assert loads.header(b"x-corral-lacks-scope") == b"load"
    assert (lets_go.status, at.scheduler.wishes) == (403, [])


async def test_a_presets_filters_count(house):
    async with house(streams(*HELLO)) as at:
        at.scheduler.filters = Filters(defaults={"temperature": 0.1})
        exchange = await asking(at.app, messages=HI).end()

    assert json.loads(at.child.received[0].body)["temperature"] == 0.1
    assert exchange.header(b"x-corral-filters") == b"defaulted=temperature"


async def test_thoughts_and_probabilities_are_told(house):
    probability = {"id": 1, "token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
    first = delta(reasoning_content="hm")
    second = event(
        {"choices": [{"delta": {"content": "a"}, "logprobs": {"content": [probability]}}]}
    )
    async with house(streams(first, second, *HELLO[3:])) as at:
        streamed = lines_of((await asking(at.app, messages=HI).end()).body)
        whole = (await asking(at.app, messages=HI, stream=False).end()).json

    assert streamed[0]["message"]["thinking"] == "hm"
    assert streamed[1]["logprobs"] == [{"token": "a", "logprob": -0.5, "bytes": [97]}]
    assert whole["message"] == {"role": "assistant", "content": "a", "thinking": "hm"}
    assert whole["logprobs"] == streamed[1]["logprobs"]


def called(arguments: str, finish: str = "tool_calls") -> list[bytes]:
    begin = {"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": ""}}
    pieces = [{"index": 0, "function": {"arguments": piece}} for piece in arguments]
    return [
        delta(tool_calls=[begin]),
        *(delta(tool_calls=[piece]) for piece in pieces),
        delta(finish),
        event(END),
        b"data: [DONE]\n\n",
    ]


async def test_a_call_of_a_tool_is_told_whole_with_its_arguments_as_an_object(house):
    async with house(streams(*called('{"city":"Oslo"}'))) as at:
        first, last = lines_of((await asking(at.app, messages=HI).end()).body)
        whole = (await asking(at.app, messages=HI, stream=False).end()).json

    function = {"index": 0, "name": "weather", "arguments": {"city": "Oslo"}}
    assert first["message"]["tool_calls"] == [{"id": "call_1", "function": function}]
    assert whole["message"]["tool_calls"] == first["message"]["tool_calls"]
    assert last["done_reason"] == whole["done_reason"] == "stop"


async def test_a_call_that_the_limit_has_cut_is_none(house):
    async with house(streams(*called('{"ci', "length"))) as at:
        [last] = lines_of((await asking(at.app, messages=HI).end()).body)

    assert last["done_reason"] == "length"
    assert "tool_calls" not in last["message"]


async def test_a_call_whose_arguments_are_no_object_ends_in_an_error(house):
    async with house(streams(*called("[1]"))) as at:
        whole = await asking(at.app, messages=HI, stream=False).end()
        streamed = await asking(at.app, messages=HI).end()

    assert whole.status == streamed.status == 502
    assert "no JSON object" in whole.json["error"]


async def test_generate_tells_a_response_and_a_context(house):
    async with house(streams(*HELLO)) as at:
        exchange = await asking(at.app, "/api/generate", prompt="hi").end()
        *chunks, last = lines_of(exchange.body)
        again = await asking(
            at.app, "/api/generate", prompt="and?", context=last["context"], stream=False
        ).end()

    assert "".join(chunk["response"] for chunk in chunks) == "Hello"
    assert last["response"] == ""
    assert json.loads(at.child.received[1].body)["messages"] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "and?"},
    ]
    assert again.json["response"] == "Hello"


async def test_a_raw_prompt_has_no_context(house):
    figures = {name: END[name] for name in ("usage", "timings")}
    last = text("b", "length", **figures)
    async with house(streams(text("a"), last, b"data: [DONE]\n\n")) as at:
        exchange = await asking(at.app, "/api/generate", prompt="x", raw=True, stream=False).end()

    assert at.child.received[0].line.startswith("POST /v1/completions ")
    assert (exchange.json["response"], exchange.json["done_reason"]) == ("ab", "length")
    assert "context" not in exchange.json
    assert COUNTS.items() <= exchange.json.items()


async def test_a_suffix_is_told_from_the_childs_own_form(house):
    last = {"content": "", "stop": True, "stop_type": "limit", "tokens_evaluated": 7}
    native = [event({"content": "a", "stop": False}), event({**last, "tokens_predicted": 2})]
    async with house(streams(*native)) as at:
        exchange = await asking(at.app, "/api/generate", prompt="x", suffix="y").end()

    first, end = lines_of(exchange.body)
    assert (first["response"], end["done_reason"], end["eval_count"]) == ("a", "length", 2)


async def test_vectors_are_passed_on_as_the_child_writes_them(house):
    vectors = {
        "data": [{"index": 1, "embedding": [3e-1, 4.0]}, {"index": 0, "embedding": [0.50, 1]}],
        "usage": {"prompt_tokens": 5},
    }
    async with house(answers(vectors)) as at:
        exchange = await asking(at.app, "/api/embed", input=["a", "b"]).end()
        short = await asking(at.app, "/api/embed", input=["a", "b"], dimensions=1).end()
        old = await asking(at.app, "/api/embeddings", prompt="a").end()

    assert exchange.json["embeddings"] == [[0.5, 1], [0.3, 4.0]]
    assert exchange.json["prompt_eval_count"] == 5
    assert short.json["embeddings"] == [[1.0], [1.0]]
    assert old.json == {"embedding": [0.5, 1]}
    assert json.loads(at.child.received[2].body)["embd_normalize"] == -1


async def test_a_body_that_waits_in_a_file_is_translated_from_there(house):
    image = "iVBORw0KGgo" + "A" * 5001
    message = {"role": "user", "content": "é" * 3000}
    async with house(streams(*HELLO), retry_body=2000) as at:
        good = await asking(at.app, messages=[message], stream=False).end()
        bad = await asking(at.app, messages=[{**message, "images": 7}]).end()
        worse = await asking(at.app, "/api/generate", prompt="x", images=[image, "http://a"]).end()

        assert good.json["message"]["content"] == "Hello"
        assert json.loads(at.child.received[0].body)["messages"] == [message]
        assert "images" in bad.json["error"]
        assert "base64" in worse.json["error"]
        assert (at.app._room.held, at.app._room.spooled) == (0, 0)


async def test_a_client_that_leaves_while_its_model_is_loaded_leaves_the_queue(house):
    async with house(streams()) as at:
        at.scheduler.open.clear()
        exchange = asking(at.app, keep_alive="5m")
        await until(lambda: at.scheduler.waiting)
        exchange.leave()
        await exchange.end()

        assert at.scheduler.waiting == 0
        assert at.scheduler.wishes == []
    assert exchange.messages == []


async def test_show_without_a_name_says_what_is_missing(house):
    async with house(streams()) as at:
        exchange = await Exchange(at.app, "/api/show", body=b"{}").end()

    assert (exchange.status, exchange.json["error"]) == (400, "model is required")


# What asks for nothing


@pytest.mark.parametrize(
    ("path", "held"),
    [
        ("/api/chat", {"message": {"role": "assistant", "content": ""}, "done_reason": "load"}),
        ("/api/generate", {"response": "", "done_reason": "load"}),
        ("/api/embed", {"embeddings": []}),
        ("/api/embeddings", {"embedding": []}),
    ],
)
async def test_an_empty_request_loads_the_model_and_no_more(house, path, held):
    async with house(streams()) as at:
        exchange = await asking(at.app, path, keep_alive="5m").end()

    assert held.items() <= exchange.json.items()
    assert at.child.received == []
    assert at.scheduler.wishes == [("tiny", "default", 300.0)]
    assert [lease.released for lease in at.scheduler.leases] == [True]


async def test_an_empty_request_with_a_keep_alive_of_0_lets_go_and_loads_nothing(house):
    async with house(streams()) as at:
        exchange = await asking(at.app, "/api/generate", keep_alive=0).end()

    assert exchange.json["done_reason"] == "unload"
    assert (exchange.json["done"], exchange.json["response"]) == (True, "")
    assert at.scheduler.leases == []
    assert at.scheduler.wishes == [("tiny", "default", 0.0)]
    assert at.notes.noted == [("unloaded", "tiny", "ollama", "anybody (--no-auth)")]


async def test_a_wish_to_keep_the_model_goes_with_the_lease(house):
    async with house(streams(*HELLO)) as at:
        await asking(at.app, messages=HI, keep_alive=-1).end()
        await asking(at.app, messages=HI).end()

    assert at.scheduler.wishes == [("tiny", "default", -1.0)]


async def test_the_version_is_one_that_clients_can_compare(house):
    async with house(streams()) as at:
        for method in ("GET", "HEAD"):
            exchange = await Exchange(at.app, "/api/version", method=method).end()
            assert exchange.status == 200

    major, minor, patch = map(int, exchange.json["version"].split("."))
    assert (major, minor, patch) >= (0, 6, 4)


async def test_ollamas_cloud_is_off(house):
    async with house(streams()) as at:
        exchange = await Exchange(at.app, "/api/status", method="GET").end()

    assert exchange.json == {"cloud": {"disabled": True, "source": "config"}}


async def test_an_unknown_path_and_a_wrong_method_are_told_in_ollamas_form(house):
    async with house(streams()) as at:
        unknown = await Exchange(at.app, "/api/nothing", body=b"{}").end()
        wrong = await Exchange(at.app, "/api/chat", method="GET", body=b"").end()

    assert (unknown.status, wrong.status) == (404, 405)
    assert "no endpoint" in unknown.json["error"]
    assert wrong.header(b"allow") == b"POST"
