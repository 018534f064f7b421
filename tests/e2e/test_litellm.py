"""LiteLLM as a client: the library by which many applications speak to any provider."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.asking import MESSAGES
from tests.support.gateway import Gateway

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.one_worker]


@pytest.fixture(scope="module")
def litellm() -> Iterator[Any]:
    """Its import takes seconds, warns of its own code, and would fetch a price list."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        import litellm

        litellm.telemetry = False
        yield litellm
        gc.collect()  # the event loops that it never closes: no other test's fault


@pytest.fixture
def server(shared: Gateway) -> dict[str, Any]:
    return {"api_base": f"{shared.base_url}/v1", "api_key": shared.key, "num_retries": 0}


@pytest.mark.filterwarnings("ignore")
def test_it_gets_an_answer_a_stream_and_vectors(litellm: Any, server: dict[str, Any]) -> None:
    asked = {"model": "openai/alpha", "messages": MESSAGES, "max_tokens": 8, **server}
    whole = litellm.completion(**asked)
    chunks = list(litellm.completion(**asked, stream=True))
    vectors = litellm.embedding(model="openai/vectors", input=["one", "two"], **server)

    assert whole.choices[0].finish_reason in ("stop", "length")
    assert whole.usage.completion_tokens > 0
    assert chunks[-1].choices[0].finish_reason in ("stop", "length")
    assert [len(each["embedding"]) for each in vectors.data] == [64, 64]


@pytest.mark.filterwarnings("ignore")
def test_its_async_half_streams(litellm: Any, server: dict[str, Any]) -> None:
    async def ask() -> list[Any]:
        stream = await litellm.acompletion(
            model="openai/alpha", messages=MESSAGES, max_tokens=8, stream=True, **server
        )
        return [each async for each in stream]

    assert asyncio.run(ask())[-1].choices[0].finish_reason in ("stop", "length")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "key", "error"),
    [("nobody", None, "NotFoundError"), ("alpha", "ck_wrong", "AuthenticationError")],
)
def test_what_fails_is_an_exception_of_its_kind(
    litellm: Any, server: dict[str, Any], model: str, key: str | None, error: str
) -> None:
    server |= {} if key is None else {"api_key": key}

    with pytest.raises(getattr(litellm, error)):
        litellm.completion(model=f"openai/{model}", messages=MESSAGES, **server)
