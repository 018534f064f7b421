"""What one request may ask of a model that others use: each of these stalled, filled or ended a
llama-server (tests/security/test_one_request_harms_nobody.py asks a real one)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.addressing import address
from proxy.bounds import (
    GRAMMARS,
    INTERNAL,
    LISTS,
    LONGEST_GRAMMAR,
    MOST_BRACKETS,
    MOST_PARTS,
    NUMBERS,
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
