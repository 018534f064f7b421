"""Requests of Ollama's as requests of llama-server's."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.ollama.context import Said, packed, unpacked
from proxy.ollama.keep_alive import keep_alive_of
from proxy.ollama.options import options_of
from proxy.ollama.planning import planned
from proxy.ollama.template import rendered
from scheduler.protocol import Refused

PNG = "iVBORw0KGgoAAAANSUhEUg=="


def plan(path: str, **fields: Any) -> tuple[Any, dict[str, Any]]:
    outcome = planned(path, json.dumps(fields).encode(), "m")
    if isinstance(outcome, Refused):
        raise outcome
    return outcome[0], json.loads(outcome[1])


def chat(**fields: Any) -> dict[str, Any]:
    return plan("/api/chat", messages=[{"role": "user", "content": "hi"}], **fields)[1]


def generate(**fields: Any) -> dict[str, Any]:
    return plan("/api/generate", **{"prompt": "hi", **fields})[1]


def refusal(path: str, **fields: Any) -> str:
    outcome = planned(path, json.dumps(fields).encode(), "m")
    assert isinstance(outcome, Refused)
    assert outcome.kind.status == 400
    return outcome.message


# keep_alive


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (None, None), ("", None), (0, 0.0), (300, 300.0), (1.5, 1.5), (-1, -1.0), (-0.5, -1.0),
        ("-1", -1.0), ("300", 300.0), ("5m", 300.0), ("1h30m", 5400.0), ("0s", 0.0), ("0", 0.0),
        ("-1m", -1.0), ("1.5s", 1.5), ("10ms", 0.01), ("24h", 86400.0), (10**400, -1.0),
    ],
)  # fmt: skip
def test_a_keep_alive_is_seconds_or_a_duration(said, seconds):
    assert keep_alive_of(said) == seconds


@pytest.mark.parametrize("said", ["soon", "5", "5 m", "m", "1h 30m", "5mm", [], {}, True, "9" * 65])
def test_what_is_no_duration_is_refused(said):
    if said == "5":
        assert keep_alive_of(said) == 5.0
        return
    with pytest.raises(Refused, match="keep_alive"):
        keep_alive_of(said)


@given(st.floats(0, 1e6, allow_nan=False), st.sampled_from(["ms", "s", "m", "h"]))
def test_any_duration_of_one_unit_is_read(number, unit):
    size = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}[unit]
    assert keep_alive_of(f"{number:f}{unit}") == pytest.approx(float(f"{number:f}") * size)


# options


def test_options_are_llama_servers_parameters():
    options = options_of(
        {"num_predict": 7, "temperature": 0.5, "top_k": 3.0, "stop": ["a"], "seed": -2, "top_p": 1}
    )

    assert options.sampling == {
        "max_tokens": 7, "temperature": 0.5, "top_k": 3, "stop": ["a"], "seed": 2**32 - 2,
        "top_p": 1,
    }  # fmt: skip
    assert options.ignored == ()


def test_what_would_load_the_model_anew_and_what_nobody_knows_is_told_and_does_not_count():
    options = options_of({"num_ctx": 4096, "num_gpu": 1, "x\r\ny": 1, "tfs_z": 1, "seed": None})

    assert options.sampling == {}
    assert options.header() == b"num_ctx, num_gpu, tfs_z, +1"


def test_a_penalty_over_the_whole_context_is_told_and_left_out_as_the_engine_refuses_it():
    assert options_of({"repeat_last_n": -1}).header() == b"repeat_last_n"
    assert options_of({"repeat_last_n": -1}).sampling == {}
    assert options_of({"repeat_last_n": 0}).sampling == {"repeat_last_n": 0}


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("temperature", "hot", "float32"), ("num_predict", "7", "integer"),
        ("num_predict", 1.5, "integer"), ("seed", True, "integer"), ("stop", "a", "array"),
        ("stop", [1], "array"), ("num_ctx", "4096", "integer"), ("use_mmap", 1, "boolean"),
        ("top_k", [], "integer"),
    ],
)  # fmt: skip
def test_an_option_of_a_wrong_type_is_refused(name, value, kind):
    with pytest.raises(Refused, match=f'option "{name}" must be of type {kind}'):
        options_of({name: value})


@given(
    st.dictionaries(
        st.text(max_size=20) | st.sampled_from(["seed", "stop", "num_predict", "num_ctx"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=4,
        ),
        max_size=6,
    )
)
def test_whatever_options_say_they_are_read_or_refused(options):
    try:
        found = options_of(options)
    except Refused:
        return
    assert found.header().isascii()
    assert b"\n" not in found.header()
    json.dumps(found.sampling)


AT_LOAD = ["num_ctx", "num_gpu", "num_batch", "main_gpu", "num_thread", "use_mmap", "use_mlock"]
CHILDS_OWN = {
    "model", "stream", "stream_options", "messages", "prompt", "input_prefix", "input_suffix",
    "max_tokens", "n_predict", "n_keep", "temperature", "top_k", "top_p", "min_p", "typical_p",
    "repeat_last_n", "repeat_penalty", "presence_penalty", "frequency_penalty", "mirostat",
    "mirostat_tau", "mirostat_eta", "seed", "stop", "input", "encoding_format", "embd_normalize",
}  # fmt: skip
"""What a request may say to a child that runs: nothing of how it was loaded."""


@given(
    st.sampled_from(["/api/chat", "/api/generate", "/api/embed", "/api/embeddings"]),
    st.dictionaries(
        st.sampled_from([*AT_LOAD, "num_predict", "top_k", "shift", "cache_prompt", "n_ctx"]),
        st.integers(-2, 5) | st.booleans(),
        max_size=5,
    ),
    st.booleans(),
)
def test_no_request_says_anything_to_the_child_of_how_it_is_loaded(path, options, raw):
    content = {"prompt": "a", "input": "a", "messages": [{"role": "user", "content": "a"}]}
    body = {**content, "raw": raw, "options": options, "truncate": False, "shift": True}
    outcome = planned(path, json.dumps(body).encode(), "m")

    if isinstance(outcome, Refused):
        assert "must be of type" in outcome.message
        return
    asked, sent = outcome
    assert set(json.loads(sent)) <= CHILDS_OWN
    named = set(asked.ignored.decode().split(", ")) - {""}
    assert named == set(options) - {"num_predict", "top_k"}


# chat


def test_a_chat_is_a_stream_of_openais_with_its_usage():
    assert chat(options={"num_predict": 5, "num_ctx": 9}) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 5,
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_a_chat_streams_unless_it_says_no():
    ask = {"messages": [{"role": "user", "content": "hi"}]}
    assert plan("/api/chat", **ask)[0].streams
    assert plan("/api/chat", **ask, stream=None)[0].streams
    assert not plan("/api/chat", **ask, stream=False)[0].streams


def test_a_schema_and_json_are_formats_of_the_answer():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}

    assert chat(format="json")["response_format"] == {"type": "json_object"}
    assert chat(format=schema)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema},
    }
    assert "response_format" not in chat(format="")
    assert "response_format" not in chat(format=None)
    assert "format" in refusal(
        "/api/chat", messages=[{"role": "user", "content": "x"}], format="yaml"
    )


def test_thinking_is_switched_by_the_template_and_needs_a_model_that_can():
    ask = {"messages": [{"role": "user", "content": "hi"}]}
    assert chat(think=False)["chat_template_kwargs"] == {"enable_thinking": False}
    assert chat(think="max")["reasoning_effort"] == "high"
    assert plan("/api/chat", **ask, think=True)[0].needs == {"thinking"}
    assert plan("/api/chat", **ask, think=False)[0].needs == frozenset()
    assert "think value" in refusal("/api/chat", **ask, think="a lot")


def test_probabilities_are_asked_for():
    asked = chat(logprobs=True, top_logprobs=3)
    assert (asked["logprobs"], asked["top_logprobs"]) == (True, 3)
    assert generate(raw=True, logprobs=True)["logprobs"] == 1
    assert "top_logprobs" in refusal("/api/generate", prompt="x", top_logprobs=21)


def test_calls_and_their_answers_find_each_other():
    calls = [
        {"function": {"name": "a", "arguments": {"x": 1}}},
        {"function": {"name": "b", "arguments": {}}},
    ]
    body = plan(
        "/api/chat",
        messages=[
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": calls},
            {"role": "tool", "content": "B", "tool_name": "b"},
            {"role": "tool", "content": "A"},
        ],
        tools=[{"type": "function", "function": {"name": "a", "parameters": {}}}],
    )[1]

    _, said, b, a = body["messages"]
    assert said["reasoning_content"] == "hm"
    assert [json.loads(c["function"]["arguments"]) for c in said["tool_calls"]] == [{"x": 1}, {}]
    ids = [c["id"] for c in said["tool_calls"]]
    assert (a["tool_call_id"], b["tool_call_id"]) == tuple(ids)
    assert (a["name"], b["name"]) == ("a", "b")
    assert body["tools"][0]["function"]["name"] == "a"


def test_no_tools_are_no_need():
    ask = {"messages": [{"role": "user", "content": "hi"}]}
    assert plan("/api/chat", **ask, tools=[])[0].needs == frozenset()
    assert plan("/api/chat", **ask, tools=[{"type": "function"}])[0].needs == {"tools"}


def test_images_go_in_the_body_and_are_never_fetched():
    message = {"role": "user", "content": "what", "images": [PNG]}
    asked, body = plan("/api/chat", messages=[message])

    assert asked.needs == {"vision"}
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "what"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ]
    message["images"] = ["https://example.com/a.png"]
    assert "base64" in refusal("/api/chat", messages=[message])


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate", "/api/embed", "/api/embeddings"])
def test_an_empty_request_asks_nothing_of_the_child(path):
    asked, _ = plan(path, keep_alive=0)
    assert (asked.path, asked.keep_alive) == ("", 0.0)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/api/chat", {"messages": "hi"}),
        ("/api/chat", {"messages": [{"content": "hi"}]}),
        ("/api/chat", {"messages": [{"role": "user", "content": 7}]}),
        ("/api/chat", {"stream": "yes"}),
        ("/api/generate", {"prompt": ["a"]}),
        ("/api/generate", {"prompt": "a", "options": [1]}),
        ("/api/generate", {"prompt": "a", "options": {"x": "y" * 70_000}}),
        ("/api/generate", {"prompt": "a", "context": [1, 2, 3]}),
        ("/api/generate", {"prompt": "a", "raw": True, "system": "b"}),
        ("/api/generate", {"prompt": "a", "raw": True, "images": [PNG]}),
        ("/api/embed", {"input": {"a": 1}}),
        ("/api/embed", {"input": "a", "dimensions": 0}),
    ],
)
def test_what_is_not_as_ollama_has_it_is_refused_with_a_word(path, fields):
    assert refusal(path, **fields)


# generate


def test_a_prompt_is_a_turn_of_a_chat_after_its_system():
    assert generate(system="be kind")["messages"] == [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "hi"},
    ]


def test_a_raw_prompt_goes_as_it_is():
    body = generate(raw=True, format="json", options={"num_predict": 3})
    assert body["prompt"] == "hi"
    assert body["max_tokens"] == 3
    assert body["json_schema"] == {"type": "object"}
    assert not {"messages", "response_format"} & set(body)


def test_a_suffix_is_filled_in_before():
    asked, body = plan("/api/generate", prompt="a", suffix="b", options={"num_predict": 3})
    assert asked.path == "/infill"
    assert (body["input_prefix"], body["input_suffix"], body["n_predict"]) == ("a", "b", 3)


def test_a_context_is_what_was_said():
    first, _ = plan("/api/generate", prompt="one", system="s")
    context = first.finally_told("two")["context"]
    body = generate(prompt="three", context=context)

    assert [each["content"] for each in body["messages"]] == ["s", "one", "two", "three"]
    again = generate(prompt="three", context=context, system="t")["messages"]
    assert [each["content"] for each in again] == ["t", "one", "two", "three"]


def test_a_template_of_the_requests_own_counts_and_goes_on():
    first, body = plan("/api/generate", prompt="hi", template="[{{ .Prompt }}] ")
    assert body["prompt"] == "[hi] "
    context = first.finally_told("yes")["context"]
    body = generate(prompt="no", template="({{ .Prompt }})", context=context)
    assert body["prompt"] == "[hi] yes(no)"
    assert "template" in refusal("/api/generate", prompt="x", context=context)


@given(st.lists(st.tuples(st.sampled_from(["user", "system"]), st.text()), max_size=6), st.text())
def test_any_context_comes_back_as_it_was(turns, text):
    numbers = packed(Said(turns, text))
    assert all(0 <= number < 2**31 for number in numbers)
    assert unpacked(msgspec.Raw(msgspec.json.encode(numbers))) == Said(turns, text)


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=12))
def test_any_other_context_is_refused(numbers):
    with pytest.raises(Refused, match="context"):
        unpacked(msgspec.Raw(msgspec.json.encode(numbers)))


@given(st.data())
def test_a_context_that_was_cut_or_changed_is_refused_or_means_something_whole(data):
    numbers = packed(Said([("user", "a text that is long enough to be packed")]))
    at = data.draw(st.integers(0, len(numbers) - 1))
    numbers[at] = data.draw(st.integers(-1, 2**24))
    with contextlib.suppress(Refused):
        assert isinstance(unpacked(msgspec.Raw(msgspec.json.encode(numbers))), Said)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ .System }}|{{ .Prompt }}|{{ .Response }}tail", "s|p|"),
        ("{{if .System}}S {{.System}} {{end}}{{.Prompt}}", "S s p"),
        ("{{ if .Suffix }}a{{ else }}b{{ end }}", "b"),
        ("x {{- .Prompt -}} y", "xpy"),
        ("{{/* why */}}{{ .Prompt }}", "p"),
        ("plain", "plain"),
    ],
)
def test_a_template_is_rendered(template, text):
    assert rendered(template, {"System": "s", "Prompt": "p"}) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{" * 30_000,
        "{{" + " " * 60_000,
        "{{ " + "\t -" * 20_000,
        "{{ if .System }}" * 4_000,
        "{{ .Prompt }}" * 5_000,
        "x" * 65_537,
    ],
    ids=["open", "blanks", "dashes", "ifs", "a prompt many times", "long"],
)
def test_no_template_takes_long_or_grows_without_end(template):
    """The first ones took minutes, of everybody's; the prompt many times all memory."""
    with pytest.raises(Refused):
        rendered(template, {"System": "s", "Prompt": "p" * 10_000})


@pytest.mark.parametrize(
    "template", ["{{ range .Messages }}{{ end }}", "{{ .Tools }}", "{{ if .System }}", "{{ .Prompt"]
)
def test_what_a_template_cannot_say_here_is_refused(template):
    with pytest.raises(Refused, match="template"):
        rendered(template, {})
