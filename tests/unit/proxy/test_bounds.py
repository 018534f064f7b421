"""What one request may ask of a model that others use: each of these stalled, filled or ended a
llama-server (tests/security/test_children.py asks a real one)."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from proxy.addressing import address, address_form
from proxy.bounds import (
    GRAMMARS,
    INTERNAL,
    LISTS,
    LONGEST_GRAMMAR,
    MOST_BRACKETS,
    MOST_CHOICES,
    MOST_PARTS,
    NUMBERS,
    PARTS,
)
from proxy.ollama.planning import planned
from scheduler.protocol import Refused


def asked(**members: Any) -> bytes:
    return json.dumps({"model": "m", "prompt": "x", **members}).encode()


TOO_MUCH = [
    *[(name, most + 1) for name, most in NUMBERS.items()],
    *[(name, 2e9) for name in NUMBERS],
    *[(name, ["a"] * (most + 1)) for name, most in LISTS.items()],
    ("logit_bias", {str(token): 1 for token in range(LISTS["logit_bias"] + 1)}),
    *[(name, "a" * LONGEST_GRAMMAR) for name in GRAMMARS if name != "text"],
    *[(name, "(" * MOST_BRACKETS + "[") for name in GRAMMARS if name != "text"],
    ("text", {"format": "a" * LONGEST_GRAMMAR}),
    ("text", {"format": "(" * MOST_BRACKETS + "["}),
    ("grammar", "root ::= " + "|" * (MOST_PARTS + 1)),
    ("json_schema", {"enum": [0] * (MOST_PARTS + 2)}),
    ("response_format", {"type": "json_schema", "json_schema": {"enum": ["a" * 50] * 2000}}),
    *[(name, ["a"] * (most + 1)) for name, most in PARTS.items()],
    *[(name, [{}] * (most + 1)) for name, most in PARTS.items()],
    ("prompt", [1, [2, 3]] * (PARTS["prompt"] + 1)),
    ("json_schema", {"items": [{"anyOf": [{}] * (MOST_CHOICES + 1)}]}),
    ("response_format", {"json_schema": {"schema": {"oneOf": [0] * (MOST_CHOICES + 1)}}}),
    *[(name, given) for name in INTERNAL for given in ("x", 1, [], {}, False)],
]


@pytest.mark.parametrize(("name", "value"), TOO_MUCH, ids=lambda each: repr(each)[:30])
def test_what_no_request_needs_is_refused_by_its_name(name: str, value: object) -> None:
    # An object of many keys is refused for being one.
    with pytest.raises(Refused, match=rf"`{name}`|more than 4000 keys") as refusal:
        address(asked(**{name: value}))

    assert refusal.value.code == "invalid_request"


ENOUGH = [
    *[(name, most) for name, most in NUMBERS.items()],
    *[(name, ["a"] * most) for name, most in LISTS.items()],
    *[(name, None) for name in (*NUMBERS, *LISTS, *GRAMMARS, *INTERNAL)],
    *[(name, "a" * (LONGEST_GRAMMAR - 2)) for name in GRAMMARS],
    ("json_schema", {"properties": {"a": {"enum": [*range(MOST_CHOICES)]}}}),
    *[(name, ["a"] * most) for name, most in PARTS.items()],
    *[(name, "a" * 100_000) for name in PARTS],
    *[(name, [*range(-9, 30_000)]) for name in PARTS],
    ("logprobs", True),
    ("repeat_last_n", -1),
    ("stop", "a" * 10_000),
    ("response_format", {"type": "json_object"}),
    ("text", {"format": {"type": "text"}}),
    ("text", "(" * (LONGEST_GRAMMAR + 1)),
    ("samplers", "kfypmxt"),
    ("messages", [{"role": "user", "content": "chat_parser grammar_triggers" * 9999}]),
    ("metadata", {"grammar_triggers": 5, "repeat_last_n": 10**9}),
]


@pytest.mark.parametrize(("name", "value"), ENOUGH, ids=lambda each: repr(each)[:30])
def test_what_requests_do_need_passes(name: str, value: object) -> None:
    assert address(asked(**{name: value})) == "m"


@pytest.mark.parametrize(
    "written",
    [
        b'"repeat\\u005flast_n": 2000000000',
        b'"repeat_last_n": 64, "repeat_last_n": 2000000000',
        b'"repeat_last_n": 2e9',
        b'"repeat_last_n" :\n\t 2000000000',
        b'"repeat_last_n": ' + b"0" * 0 + b"9" * 1000,
    ],
)
def test_no_way_of_writing_hides_it(written: bytes) -> None:
    with pytest.raises(Refused, match="repeat_last_n"):
        address(b'{"model":"m",' + written + b"}")


def test_a_list_of_millions_takes_no_memory_before_it_is_refused() -> None:
    body = b'{"model":"m","messages":["a"' + b",1" * 2_000_000 + b"]}"
    address(asked(messages=["a"] * 10))
    tracemalloc.start()
    with pytest.raises(Refused, match="`messages`"):
        address(body)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 4 << 20  # with an object for each it would be a hundred


@pytest.mark.parametrize(("sign", "most"), [("(", MOST_BRACKETS), ("|", MOST_PARTS)])
def test_an_escape_hides_no_sign_of_a_grammar(sign: str, most: int) -> None:
    written = f"\\u00{ord(sign):02x}" * (most + 1)
    with pytest.raises(Refused, match="`grammar` has more than"):
        address(f'{{"model":"m","grammar":"{written}"}}'.encode())


def form_of(name: str, value: str) -> bytes:
    parts = [("model", "m"), (name, value)]
    said = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{text}\r\n'
        for field, text in parts
    )
    return f"{said}--b--\r\n".encode()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("grammar", "(" * (MOST_BRACKETS + 1)),
        ("grammar", "a" * (LONGEST_GRAMMAR + 1)),
        ("response_format", json.dumps({"enum": [0] * (MOST_CHOICES + 1)})),
        ("repeat_last_n", "2000000000"),
        ("chat_parser", "x"),
    ],
    ids=lambda each: each[:20],
)
def test_a_forms_fields_are_bounded_alike(name: str, value: str) -> None:
    with pytest.raises(Refused, match=f"`{name}`"):
        address_form(form_of(name, value), b"multipart/form-data; boundary=b")


@pytest.mark.parametrize(
    ("name", "value"),
    [("response_format", "verbose_json"), ("stop", "[not json"), ("prompt", "(" * 100_000)],
)
def test_what_forms_do_need_passes(name: str, value: str) -> None:
    assert address_form(form_of(name, value), b"multipart/form-data; boundary=b") == "m"


@pytest.mark.parametrize(
    "options",
    [{"repeat_last_n": 2**31 - 1}, {"stop": ["a"] * 300}],
)
def test_ollamas_words_for_it_are_bounded_alike(options: dict[str, Any]) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "options": options}

    answer = planned("/api/chat", json.dumps(body).encode(), "m")

    assert isinstance(answer, Refused)
    assert str(next(iter(options))) in answer.message


def test_a_schema_of_ollamas_is_bounded_too() -> None:
    schema = {"enum": ["a" * 50] * 2000}
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "format": schema}

    answer = planned("/api/chat", json.dumps(body).encode(), "m")

    assert isinstance(answer, Refused)
    assert "response_format" in answer.message
