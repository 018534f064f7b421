"""Anthropic's own Python library with nothing changed but its base_url."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic

from tests.support.gateway import Gateway
from tests.support.speaking import HELLO, SCHEMA, picture

pytestmark = [pytest.mark.engine, pytest.mark.slow]

WEATHER = {"name": "weather", "description": "Of a city.", "input_schema": SCHEMA}
CALLING: dict[str, Any] = {
    "model": "alpha",
    "messages": [HELLO, {"role": "assistant", "content": "<tool_call>\n"}],
    "tools": [WEATHER],
    "tool_choice": {"type": "any"},
    "max_tokens": 60,
}
"""Random weights never begin a call by themselves; once it has begun, the grammar lets them write
nothing else but calls."""
ASKING: dict[str, Any] = {"model": "alpha", "messages": [HELLO], "max_tokens": 4}


@pytest.fixture
def client(speaking: Gateway) -> Iterator[Anthropic]:
    with Anthropic(base_url=speaking.base_url, api_key=speaking.key, max_retries=0) as made:
        yield made


def test_it_gets_a_whole_message_and_streams_the_same(client: Anthropic) -> None:
    whole = client.messages.create(**ASKING, system=[{"type": "text", "text": "Be brief."}])
    with client.messages.stream(**ASKING, system="Be brief.") as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()

    assert (whole.model, whole.role, whole.stop_reason) == ("alpha", "assistant", "max_tokens")
    assert whole.usage.output_tokens == 4
    assert [block.text for block in whole.content] == [text]
    assert final.content[0].text == text
    assert final.stop_reason == "max_tokens"
    assert final.usage.output_tokens == 4


def test_its_events_come_in_their_order(client: Anthropic) -> None:
    kinds = [event.type for event in client.messages.create(**ASKING, stream=True)]

    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) == {"content_block_delta"}


def test_it_counts_tokens_as_an_answer_does(client: Anthropic) -> None:
    counted = client.messages.count_tokens(model="alpha", messages=[HELLO])

    assert counted.input_tokens == client.messages.create(**ASKING).usage.input_tokens


def test_a_stop_sequence_ends_an_answer(client: Anthropic) -> None:
    text = client.messages.create(**ASKING).content[0].text

    stopped = client.messages.create(**ASKING, stop_sequences=[text[1]])

    assert stopped.stop_sequence == text[1]
    assert text[1] not in stopped.content[0].text


def test_it_calls_a_tool_and_takes_what_came_of_it(client: Anthropic) -> None:
    asked = client.messages.create(**CALLING)
    [call, *_] = [block for block in asked.content if block.type == "tool_use"]
    told = client.messages.create(
        model="alpha",
        messages=[
            HELLO,
            {"role": "assistant", "content": [call.to_dict()]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "rain"}],
            },
        ],
        tools=[WEATHER],
        max_tokens=2,
    )

    assert call.name == "weather"
    assert call.input["city"] in ("Oslo", "Rome")
    assert told.stop_reason


def test_it_streams_the_call_of_a_tool(client: Anthropic) -> None:
    with client.messages.stream(**CALLING) as stream:
        pieces = [event for event in stream if event.type == "input_json"]
        call = stream.get_final_message().content[0]

    assert pieces
    assert (call.type, call.name) == ("tool_use", "weather")
    assert call.input["city"] in ("Oslo", "Rome")


def test_without_a_choice_of_tools_none_is_called(client: Anthropic) -> None:
    answer = client.messages.create(**{**CALLING, "tool_choice": {"type": "none"}, "max_tokens": 4})

    assert [block.type for block in answer.content] == ["text"]


def test_it_thinks_in_blocks_of_their_own(client: Anthropic) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    asked = {**ASKING, "model": "thinks", "thinking": thinking}
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        thoughts = "".join(event.thinking for event in stream if event.type == "thinking")

    assert [block.type for block in whole.content] == ["thinking"]
    assert whole.content[0].thinking == thoughts


def test_it_sees_what_it_is_shown(client: Anthropic) -> None:
    blind = client.messages.create(**{**ASKING, "model": "sees"}).usage.input_tokens
    source = {"type": "base64", "media_type": "image/png", "data": picture()}
    shown = {"role": "user", "content": [{"type": "image", "source": source}]}

    seen = client.messages.create(model="sees", messages=[shown], max_tokens=2)

    assert seen.usage.input_tokens > blind + 32


def test_versions_and_betas_of_any_value_pass(speaking: Gateway) -> None:
    headers = {"anthropic-version": "1999-12-31", "anthropic-beta": "made-up-1,made-up-2"}
    with Anthropic(
        base_url=speaking.base_url, auth_token=speaking.key, default_headers=headers
    ) as client:
        assert client.messages.create(**ASKING).content
        assert client.beta.messages.create(**ASKING, betas=["made-up-3"]).content


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"model": "nothing-like-it"}, anthropic.NotFoundError, "nothing-like-it"),
        ({"extra_body": {"temperature": "hot"}}, anthropic.BadRequestError, "temperature"),
        (
            {"messages": [{"role": "user", "content": "a " * 9000}]},
            anthropic.BadRequestError,
            "context size",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "image",
                                "source": {
                                    "type": "base64",
                                    "media_type": "image/png",
                                    "data": picture(),
                                },
                            }
                        ],
                    }
                ]
            },
            anthropic.BadRequestError,
            "image input is not supported",
        ),
        (
            {"extra_body": {"output_format": {"type": "json_schema", "schema": SCHEMA}}},
            anthropic.BadRequestError,
            "tool_choice",
        ),
        ({"extra_body": {"messages": "x"}}, anthropic.BadRequestError, "must be a list"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_fails_is_an_exception_of_its_kind(
    client: Anthropic, asked: dict[str, Any], error: type[anthropic.APIError], words: str, stream
) -> None:
    patient = client.with_options(max_retries=5, timeout=60)
    with pytest.raises(error, match=words) as raised:
        patient.messages.create(**{**ASKING, **asked}, stream=stream)

    assert raised.value.body["type"] == "error"
    assert raised.value.body["error"]["type"]


def test_a_wrong_key_is_an_authentication_error(client: Anthropic) -> None:
    with pytest.raises(anthropic.AuthenticationError):
        client.with_options(api_key="ck_wrong").messages.create(**ASKING)


def test_its_async_half_does_the_same_side_by_side(speaking: Gateway) -> None:
    async def ask() -> set[str]:
        async with AsyncAnthropic(base_url=speaking.base_url, api_key=speaking.key) as client:

            async def streamed() -> str:
                async with client.messages.stream(**ASKING) as stream:
                    return "".join([text async for text in stream.text_stream])

            whole = client.messages.create(**ASKING)
            *texts, answer = await asyncio.gather(streamed(), streamed(), whole)
            return {*texts, answer.content[0].text}

    assert len(asyncio.run(ask())) == 1
