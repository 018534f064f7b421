"""Ollama's own Python client, and what is built upon it, with nothing changed but the address."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_ollama import ChatOllama, OllamaEmbeddings
from ollama import AsyncClient, Client, ResponseError
from pydantic import BaseModel

from tests.support.gateway import Gateway, gateway
from tests.support.polling import eventually
from tests.support.tools_template import TOOLS_TEMPLATE

pytestmark = [pytest.mark.engine, pytest.mark.slow]

HI = [{"role": "user", "content": "Hello"}]
FEW: dict[str, Any] = {"num_predict": 4, "temperature": 0, "num_ctx": 99_999, "num_gpu": 3}
PRESETS = f"""
from models_registry.models import Alias, Preset
alpha = Preset.objects.get(name="alpha")
alpha.extra_options = {"chat-template = " + TOOLS_TEMPLATE!r}
alpha.request_defaults = {{"top_k": 7}}
alpha.full_clean()
alpha.save()
Alias.objects.create(
    name="caller:latest", preset=alpha, request_set={{"tool_choice": "required"}}
)
Preset.objects.create(
    name="vectors", model_file=alpha.model_file, embeddings=True, extra_options="pooling = mean"
)
"""
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}},
            "required": ["city"],
        },
    },
}
CALLING = [*HI, {"role": "assistant", "content": "<tool_call>\n"}]
"""Random weights never begin a call by themselves; once it has begun, the grammar of `caller` lets
them write nothing but calls."""


class Verdict(BaseModel):
    good: bool


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("ollama")
    models = {"alpha": {"seed": 1}, "beta": {"seed": 2}}
    with gateway(folder, args=["--models-max", "2"], models=models) as running:
        running.django(PRESETS)
        yield running


def bearer(serving: Gateway) -> dict[str, str]:
    return {"Authorization": f"Bearer {serving.key}"}


@pytest.fixture
def ollama(serving: Gateway) -> Iterator[Client]:
    with Client(serving.base_url, headers=bearer(serving)) as client:
        yield client


def test_it_chats_in_one_piece_with_real_counts_and_durations(ollama: Client) -> None:
    answer = ollama.chat("alpha", HI, options=FEW)

    assert answer.message.role == "assistant"
    assert answer.done
    assert answer.done_reason in ("stop", "length")
    assert 0 < answer.eval_count <= 4
    assert answer.prompt_eval_count > 0
    assert answer.total_duration > answer.eval_duration > 0
    assert answer.load_duration >= 0


def test_it_streams_a_chat_and_the_same_is_said(ollama: Client) -> None:
    whole = ollama.chat("alpha", HI, options=FEW)
    chunks = list(ollama.chat("alpha:latest", HI, options=FEW, stream=True))

    assert [chunk.done for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert "".join(chunk.message.content for chunk in chunks) == whole.message.content
    assert chunks[-1].eval_count == whole.eval_count
    assert {chunk.model for chunk in chunks} == {"alpha:latest"}


def test_it_generates_by_the_chat_template_raw_and_on_a_context(ollama: Client) -> None:
    first = ollama.generate("alpha", "Once", system="Be brief.", options=FEW)
    again = ollama.generate("alpha", "And then?", context=first.context, options=FEW)
    raw = ollama.generate("alpha", "Once", raw=True, options=FEW)

    assert again.prompt_eval_count > first.prompt_eval_count > raw.prompt_eval_count
    assert raw.context is None
    streamed = list(ollama.generate("alpha", "Once", raw=True, options=FEW, stream=True))
    assert "".join(chunk.response for chunk in streamed) == raw.response


def test_an_answer_has_the_form_of_a_schema(ollama: Client) -> None:
    options = {"temperature": 0, "num_predict": 60}
    schema = Verdict.model_json_schema()
    chatted = ollama.chat("alpha", HI, format=schema, options=options)
    raw = ollama.generate("alpha", "x", raw=True, format=schema, options=options)

    assert isinstance(Verdict.model_validate_json(chatted.message.content).good, bool)
    assert isinstance(Verdict.model_validate_json(raw.response).good, bool)


def test_it_calls_a_tool_with_arguments_as_an_object(ollama: Client) -> None:
    options = {"num_predict": 200}
    whole = ollama.chat("caller", CALLING, tools=[WEATHER], options=options)
    chunks = list(ollama.chat("caller", CALLING, tools=[WEATHER], options=options, stream=True))

    assert chunks[-1].done
    calls = [call for chunk in chunks for call in chunk.message.tool_calls or ()]
    assert calls
    assert whole.message.tool_calls
    for call in [*calls, *whole.message.tool_calls]:
        assert call.function.name == "weather"
        assert call.function.arguments["city"] in ("Oslo", "Rome")


def test_probabilities_are_told(ollama: Client) -> None:
    answer = ollama.chat("alpha", HI, options=FEW, logprobs=True, top_logprobs=2)

    assert len(answer.logprobs) == answer.eval_count
    assert len(answer.logprobs[0].top_logprobs) == 2


def test_it_embeds(ollama: Client) -> None:
    answer = ollama.embed("vectors", ["one", "two"])
    old = ollama.embeddings("vectors", "one")

    assert [len(vector) for vector in answer.embeddings] == [64, 64]
    assert sum(number**2 for number in answer.embeddings[0]) == pytest.approx(1, abs=1e-3)
    assert answer.prompt_eval_count > 0
    assert len(old.embedding) == 64
    assert len(ollama.embed("vectors", "one", dimensions=8).embeddings[0]) == 8


def test_it_lists_and_shows_what_is_there(ollama: Client) -> None:
    eventually(
        lambda: {each.details.family for each in ollama.list().models} == {"llama"},
        "the headers are read",
    )
    listed = {model.model: model for model in ollama.list().models}
    shown = ollama.show("alpha")

    assert set(listed) == {"alpha:latest", "beta:latest", "vectors:latest"}
    assert len(listed["alpha:latest"].digest) == 64
    assert listed["alpha:latest"].size > 0
    assert shown.modelinfo["llama.context_length"] > 0
    assert shown.template == TOOLS_TEMPLATE
    assert {"completion", "tools"} <= set(shown.capabilities)
    assert ollama.show("vectors").capabilities == ["embedding"]
    assert "top_k" in shown.parameters


def test_what_is_loaded_is_listed_until_it_is_let_go(ollama: Client) -> None:
    ollama.generate("beta", keep_alive="10m")
    [beta] = [model for model in ollama.ps().models if model.model == "beta:latest"]
    assert beta.size > 0
    assert beta.context_length > 0

    assert ollama.generate("beta", keep_alive=0).done_reason == "unload"

    eventually(
        lambda: "beta:latest" not in {model.model for model in ollama.ps().models}, "beta has gone"
    )


def test_no_client_lets_go_what_another_team_uses(serving: Gateway, ollama: Client) -> None:
    made = serving.manage("createkey", "other", "--team", "blue", "--scopes", "infer,read,load")
    key = made.stdout.split()[-1]
    ollama.generate("beta", keep_alive="5m")
    pid = serving.child_of("beta").pid
    with Client(serving.base_url, headers={"Authorization": f"Bearer {key}"}) as other:
        other.generate("beta", "x", options=FEW, keep_alive=0)
        other.generate("beta", keep_alive=0)

        [beta] = [model for model in other.ps().models if model.model == "beta:latest"]

    assert beta.expires_at is not None
    assert serving.child_of("beta").pid == pid


def test_errors_are_those_that_clients_know(ollama: Client) -> None:
    image = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    for ask, status, words in (
        (lambda: ollama.chat("nobody", HI), 404, "try pulling it first"),
        (lambda: ollama.chat("beta", HI, tools=[WEATHER]), 400, "does not support tools"),
        (lambda: ollama.chat("alpha", HI, think=True), 400, "does not support thinking"),
        (lambda: ollama.chat("alpha", HI, options={"top_k": "x"}), 400, "must be of type"),
        (lambda: ollama.generate("alpha", "a", images=[image]), 400, "does not support vision"),
        (lambda: ollama.generate("alpha", "a " * 30_000), 400, "context size"),
        (lambda: ollama.generate("alpha", "a", suffix="b"), 400, "nfill"),
        (lambda: ollama.show("nobody"), 404, "not found"),
    ):
        with pytest.raises(ResponseError, match=words) as error:
            ask()
        assert error.value.status_code == status, words


async def test_the_async_client_does_the_same_many_at_once(serving: Gateway) -> None:
    async with AsyncClient(serving.base_url, headers=bearer(serving)) as client:

        async def streamed() -> str:
            parts = await client.chat("alpha", HI, options=FEW, stream=True)
            return "".join([part.message.content async for part in parts])

        said = await asyncio.gather(*(streamed() for _ in range(6)))
        whole = await client.generate("alpha", "Once", options=FEW)
        vectors = await client.embed("vectors", "one")

        assert len(said) == 6
        assert whole.done
        assert len(vectors.embeddings[0]) == 64
        assert (await client.show("alpha")).capabilities
        assert (await client.list()).models
        assert (await client.ps()).models


@pytest.mark.filterwarnings("ignore")
def test_langchain_chats_streams_and_embeds(serving: Gateway) -> None:
    key = {"headers": bearer(serving)}
    model = ChatOllama(
        model="alpha",
        base_url=serving.base_url,
        client_kwargs=key,
        validate_model_on_init=True,
        num_predict=4,
        num_ctx=2048,
    )
    vectors = OllamaEmbeddings(model="vectors", base_url=serving.base_url, client_kwargs=key)

    answer = model.invoke("Hello")
    chunks = list(model.stream("Hello"))

    assert answer.usage_metadata["output_tokens"] <= 4
    assert answer.response_metadata["done_reason"] in ("stop", "length")
    assert any(chunk.response_metadata.get("done") for chunk in chunks)
    assert len(vectors.embed_query("one")) == 64


@pytest.mark.filterwarnings("ignore")
def test_llama_index_chats_and_streams(serving: Gateway, ollama: Client) -> None:
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.ollama import Ollama

    options = {"num_predict": 4}
    model = Ollama(
        model="alpha", base_url=serving.base_url, client=ollama, additional_kwargs=options
    )
    asked = [ChatMessage(role="user", content="Hello")]

    answer = model.chat(asked)
    chunks = list(model.stream_chat(asked))

    assert answer.raw["done_reason"] in ("stop", "length")
    assert answer.raw["eval_count"] <= 4
    assert chunks[-1].raw["done"]
