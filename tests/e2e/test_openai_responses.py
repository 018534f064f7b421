"""OpenAI's Responses by OpenAI's own library: what holds, and what is told to be missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError, OpenAI
from pydantic import BaseModel, ConfigDict

from tests.support.gateway import Gateway
from tests.support.speaking import HELLO, SCHEMA

pytestmark = [pytest.mark.engine, pytest.mark.slow]

WEATHER = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
BEGUN = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "<tool_call>\n"}],
}
CALLING: dict[str, Any] = {
    "model": "alpha",
    "input": [HELLO, BEGUN],
    "tools": [WEATHER],
    "tool_choice": "required",
    "max_output_tokens": 60,
}


class Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    good: bool


@pytest.fixture
def client(speaking: Gateway) -> Iterator[OpenAI]:
    base_url = f"{speaking.base_url}/v1"
    with OpenAI(base_url=base_url, api_key=speaking.key, max_retries=0) as made:
        yield made


def test_it_calls_a_tool_and_takes_what_came_of_it(client: OpenAI) -> None:
    asked = client.responses.create(**CALLING)
    call = next(item for item in asked.output if item.type == "function_call")
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    told = client.responses.create(
        model="alpha",
        input=[HELLO, call.to_dict(), output],
        tools=[WEATHER],
        max_output_tokens=2,
    )

    assert call.name == "weather"
    assert json.loads(call.arguments)["city"] in ("Oslo", "Rome")
    assert told.output_text


def test_it_streams_the_call_of_a_tool(client: OpenAI) -> None:
    events = list(client.responses.create(**CALLING, stream=True))

    pieces = [each for each in events if each.type == "response.function_call_arguments.delta"]
    done = [each.item for each in events if each.type == "response.output_item.done"]
    first = "".join(each.delta for each in pieces if each.item_id == done[0].id)
    assert first == done[0].arguments
    assert events[-1].type == "response.completed"


def test_an_answer_has_the_form_that_was_asked_for(client: OpenAI) -> None:
    answer = client.responses.parse(
        model="alpha", input="Well?", text_format=Verdict, max_output_tokens=60
    )

    assert isinstance(answer.output_parsed, Verdict)


def test_it_thinks_in_an_item_of_its_own(client: OpenAI) -> None:
    answer = client.responses.create(model="thinks", input="Well?", max_output_tokens=4)

    [item] = answer.output
    assert item.type == "reasoning"
    assert item.content[0].text


def test_instructions_come_before_what_is_said(client: OpenAI) -> None:
    bare = client.responses.create(model="alpha", input="Well?", max_output_tokens=2)
    told = client.responses.create(
        model="alpha", input="Well?", instructions="Be brief.", max_output_tokens=2
    )

    assert told.usage.input_tokens > bare.usage.input_tokens


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"top_logprobs": 2}, "logprobs"),
        ({"input": 5}, "input"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_not_here_is_said(
    client: OpenAI, asked: dict[str, Any], words: str, stream: bool
) -> None:
    with pytest.raises(BadRequestError, match=words):
        client.responses.create(**{"model": "alpha", "input": "x", **asked}, stream=stream)


def test_nothing_is_kept_to_be_asked_for_later(client: OpenAI) -> None:
    made = client.responses.create(model="alpha", input="x", max_output_tokens=1, store=True)

    for ask in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
        with pytest.raises(NotFoundError):
            ask(made.id)
