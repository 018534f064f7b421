"""What the engine would leave out in silence is said in its words, or refused."""

from __future__ import annotations

import json
import tempfile
from mmap import ACCESS_READ, mmap
from typing import Any

import msgspec
import pytest

from proxy.dialects.otherwise import AS_IT_IS, otherwise

SCHEMA = {"type": "object", "properties": {"good": {"type": "boolean", "const": 1.50}}}


def asked(path: str, **body: Any) -> Any:
    return otherwise(path, json.dumps({"model": "m", "messages": [], **body}).encode())


@pytest.mark.parametrize("path", ["/v1/responses", "/responses"])
def test_a_schema_of_responses_is_a_response_format(path: str) -> None:
    form = {"type": "json_schema", "name": "n", "strict": True, "schema": SCHEMA}

    told = asked(path, input="x", text={"format": form, "verbosity": "low"})

    wish = json.loads(msgspec.json.encode(told.add))
    assert wish == {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}


def test_so_is_any_object() -> None:
    told = asked("/v1/responses", text={"format": {"type": "json_object"}})

    assert told.add == {"response_format": {"type": "json_object"}}


@pytest.mark.parametrize(
    "body",
    [
        {"background": True},
        {"conversation": "conv_1"},
        {"conversation": {"id": "conv_1"}},
        {"prompt": {"id": "pmpt_1"}},
    ],
)
def test_what_needs_a_server_that_keeps_what_was_said_is_refused(body: dict[str, Any]) -> None:
    told = asked("/v1/responses", input="x", **body)

    assert told.refused.code == "invalid_request"
    assert next(iter(body)) in told.refused.message


@pytest.mark.parametrize(
    "body",
    [
        {"store": True, "include": ["reasoning.encrypted_content"], "truncation": "auto"},
        {"background": False, "conversation": None, "prompt": None},
        {"text": {"format": {"type": "text"}}},
        {"text": {"verbosity": "low"}},
        {"text": "x", "background": "x"},
    ],
)
def test_what_changes_no_answer_passes(body: dict[str, Any]) -> None:
    assert asked("/v1/responses", **body) == AS_IT_IS


@pytest.mark.parametrize(
    "body",
    [
        {"output_format": {"type": "json_schema", "schema": SCHEMA}},
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"messages": "x"},
        {"messages": None},
    ],
)
def test_what_no_word_is_for_on_anthropics_path_is_refused(body: dict[str, Any]) -> None:
    assert asked("/v1/messages", **body).refused.code == "invalid_request"


def test_no_choice_of_tools_is_no_tools() -> None:
    told = asked("/v1/messages", tools=[{"name": "t"}], tool_choice={"type": "none"})

    assert told.strip == ("tools", "tool_choice")


@pytest.mark.parametrize(
    "body",
    [
        {"output_config": {"effort": "low"}, "thinking": {"type": "enabled"}, "metadata": {}},
        {"tools": [], "tool_choice": {"type": "any"}},
        {"tool_choice": "none"},
    ],
)
def test_the_rest_of_anthropics_passes(body: dict[str, Any]) -> None:
    assert asked("/v1/messages", **body) == AS_IT_IS


def test_a_body_in_a_file_can_be_closed_after_it_was_looked_at() -> None:
    form = {"type": "json_schema", "schema": SCHEMA}
    body = json.dumps({"text": {"format": form}}).encode()
    with tempfile.TemporaryFile() as file:
        file.write(body)
        file.flush()
        with mmap(file.fileno(), len(body), access=ACCESS_READ) as view:
            told = otherwise("/v1/responses", view)

    assert json.dumps(SCHEMA).encode() in msgspec.json.encode(told.add)
