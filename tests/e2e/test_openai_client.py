"""The official Python client with nothing changed but its base_url."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import (
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    InternalServerError,
    NotFoundError,
    OpenAI,
)
from pydantic import BaseModel, ConfigDict

from tests.support.asking import MESSAGES
from tests.support.gateway import Gateway

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.one_worker]


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Oslo", "Rome"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
CALLING = {
    "model": "alpha",
    "messages": [*MESSAGES, {"role": "assistant", "content": "<tool_call>\n"}],
    "tools": [WEATHER],
    "tool_choice": "required",
    "max_tokens": 200,
}
"""Random weights never begin a call by themselves; once it has begun, the grammar lets them write
nothing else but more calls."""


class Verdict(BaseModel):
    """What an answer is to look like."""

    model_config = ConfigDict(extra="forbid")

    good: bool
    mark: int


@pytest.fixture
def openai(shared: Gateway) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{shared.base_url}/v1", api_key=shared.key, max_retries=0) as client:
        yield client


def test_it_gets_a_whole_answer(openai: OpenAI) -> None:
    answer = openai.chat.completions.create(model="alpha", messages=MESSAGES, max_tokens=8)

    assert answer.model == "alpha"
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.completion_tokens > 0


def test_it_streams_an_answer_to_its_finish_reason(openai: OpenAI) -> None:
    with openai.chat.completions.create(
        model="alpha", messages=MESSAGES, max_tokens=8, stream=True
    ) as stream:
        chunks = list(stream)

    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert reasons[-1] in ("stop", "length")
    assert {chunk.model for chunk in chunks} == {"alpha"}


def test_it_completes_a_text(openai: OpenAI) -> None:
    answer = openai.completions.create(model="alpha", prompt="Once upon", max_tokens=8)

    assert answer.choices[0].finish_reason in ("stop", "length")


def test_it_gets_a_vector_for_each_text(openai: OpenAI) -> None:
    answer = openai.embeddings.create(model="vectors", input=["one", "two"])

    assert [len(item.embedding) for item in answer.data] == [64, 64]


def test_an_alias_with_parameters_of_its_own_is_a_variant_of_the_model(openai: OpenAI) -> None:
    asked = openai.chat.completions.with_raw_response.create(
        model="alpha:brief", messages=MESSAGES, max_tokens=8
    )

    assert asked.headers["x-corral-filters"] == "set=max_tokens"
    assert asked.parse().usage.completion_tokens == 2


def test_a_presets_variables_are_in_its_childs_environment_and_nowhere_else(
    shared: Gateway, openai: OpenAI
) -> None:
    openai.embeddings.create(model="vectors", input="one")

    environment = Path(f"/proc/{shared.child_of('vectors').pid}/environ").read_bytes()
    assert b"GGML_TEST_VARIABLE=hush-hush" in environment.split(b"\0")
    listed = shared.client.request("GET", "/models", key=shared.key).body
    assert b"vectors" in listed
    assert b"hush-hush" not in listed
    assert "hush-hush" not in repr(shared.snapshot())
    assert not [line for line in shared.output if "hush-hush" in line]


def test_it_lists_the_presets(openai: OpenAI) -> None:
    listed = {model.id for model in openai.models.list()}

    assert {"alpha", "beta", "gamma", "slow", "vectors"} <= listed


def test_it_gets_one_model_by_its_name_or_an_alias(openai: OpenAI) -> None:
    assert [openai.models.retrieve(name).id for name in ("alpha", "first")] == ["alpha"] * 2


@pytest.mark.parametrize("asked", ["alpha", "first", "alpha:brief", "claude-3-5-haiku"])
def test_an_answer_names_the_preset_whatever_was_asked_for(openai: OpenAI, asked: str) -> None:
    whole = openai.chat.completions.create(model=asked, messages=MESSAGES, max_tokens=2)
    text = openai.completions.create(model=asked, prompt="a", max_tokens=2)
    response = openai.responses.create(model=asked, input="a", max_output_tokens=2)

    assert [answer.model for answer in (whole, text, response)] == ["alpha"] * 3


@pytest.mark.parametrize(
    ("asked", "model", "filters"),
    [
        ("alpha", "alpha", "set=max_tokens"),
        ("gpt-4o-mini", "alpha", None),
        ("first", "alpha", None),
        ("whatever", "beta", None),
    ],
)
def test_a_key_with_aliases_of_its_own_has_other_names_and_a_default(
    shared: Gateway, openai: OpenAI, asked: str, model: str, filters: str | None
) -> None:
    own = openai.with_options(api_key=shared.admin_key)
    answer = own.chat.completions.with_raw_response.create(
        model=asked, messages=MESSAGES, max_tokens=4
    )

    assert answer.parse().model == model
    assert answer.headers.get("x-corral-filters") == filters


def test_a_body_without_a_model_gets_the_keys_default(shared: Gateway) -> None:
    body = {"messages": MESSAGES, "max_tokens": 2}
    default = shared.client.request("POST", "/v1/chat/completions", body, key=shared.admin_key)
    none = shared.client.request("POST", "/v1/chat/completions", body)

    assert (default.status, default.json["model"]) == (200, "beta")
    assert (none.status, none.code) == (400, "model_missing")


def test_it_calls_a_tool_and_takes_what_came_of_it(openai: OpenAI) -> None:
    asked = openai.chat.completions.create(**CALLING)
    call = asked.choices[0].message.tool_calls[0]
    told = openai.chat.completions.create(
        model="alpha",
        messages=[
            *MESSAGES,
            {"role": "assistant", "content": "", "tool_calls": [call.model_dump()]},
            {"role": "tool", "tool_call_id": call.id, "content": "rain"},
        ],
        tools=[WEATHER],
        max_tokens=4,
    )

    assert call.function.name == "weather"
    assert json.loads(call.function.arguments)["city"] in ("Oslo", "Rome")
    assert told.choices[0].finish_reason


def test_it_streams_the_call_of_a_tool(openai: OpenAI) -> None:
    with openai.chat.completions.create(**CALLING, stream=True) as stream:
        deltas = [chunk.choices[0].delta.tool_calls or [] for chunk in stream if chunk.choices]

    first = [part.function for parts in deltas for part in parts if part.index == 0]
    assert first[0].name == "weather"
    arguments = json.loads("".join(part.arguments or "" for part in first))
    assert arguments["city"] in ("Oslo", "Rome")


def test_it_gets_an_answer_of_the_shape_that_it_asked_for(openai: OpenAI) -> None:
    answer = openai.chat.completions.parse(
        model="alpha", messages=MESSAGES, response_format=Verdict, max_tokens=400
    )

    assert isinstance(answer.choices[0].message.parsed, Verdict)


def test_it_gets_a_response_and_streams_one(openai: OpenAI) -> None:
    whole = openai.responses.create(model="alpha", input="Say something.", max_output_tokens=8)
    with openai.responses.create(
        model="alpha", input="Say something.", max_output_tokens=8, stream=True
    ) as stream:
        kinds = [event.type for event in stream]

    assert whole.usage.output_tokens > 0
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert "response.output_text.delta" in kinds


def test_vectors_are_the_same_as_numbers_and_packed(openai: OpenAI) -> None:
    packed, plain = (
        openai.embeddings.create(model="vectors", input="one", encoding_format=form)
        for form in ("base64", "float")
    )

    assert isinstance(packed.data[0].embedding, str)
    assert len(plain.data[0].embedding) == 64


def test_its_async_half_does_the_same_side_by_side(shared: Gateway) -> None:
    async def ask() -> tuple[list[str], str]:
        async with AsyncOpenAI(base_url=f"{shared.base_url}/v1", api_key=shared.key) as client:

            async def streamed() -> str:
                chunks = await client.chat.completions.create(
                    model="alpha", messages=MESSAGES, max_tokens=8, stream=True
                )
                reasons = [each.choices[0].finish_reason async for each in chunks]
                return str(reasons[-1])

            whole = client.chat.completions.create(model="alpha", messages=MESSAGES, max_tokens=8)
            *reasons, answer = await asyncio.gather(streamed(), streamed(), whole)
            listed = [model.id async for model in client.models.list()]
            assert "alpha" in listed
            return reasons, answer.model

    reasons, model = asyncio.run(ask())
    assert model == "alpha"
    assert set(reasons) <= {"stop", "length"}


@pytest.mark.parametrize(
    ("asked", "error", "code"),
    [
        ({"model": "nothing-like-it"}, NotFoundError, "model_not_found"),
        ({"model": "alpha", "messages": "x"}, BadRequestError, "400"),
        ({"model": "broken-1"}, InternalServerError, "preset_invalid"),
    ],
)
def test_what_fails_is_an_exception_of_its_kind(
    openai: OpenAI, asked: dict, error: type[Exception], code: str
) -> None:
    patient = openai.with_options(max_retries=5, timeout=60)
    with pytest.raises(error) as raised:
        patient.chat.completions.create(**{"messages": MESSAGES, "max_tokens": 2, **asked})

    assert raised.value.code == code
    assert raised.value.request_id


def test_a_wrong_key_is_an_authentication_error(openai: OpenAI) -> None:
    with pytest.raises(AuthenticationError):
        openai.with_options(api_key="ck_wrong").models.list()
