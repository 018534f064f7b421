"""The official Python client with nothing changed but its base_url."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from tests.support.asking import MESSAGES
from tests.support.gateway import Gateway

pytestmark = [pytest.mark.engine, pytest.mark.slow]


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
