"""What the gateway refuses is the exception that its client has for it, with the words; and clients
try again what waiting cures, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import ollama
import openai
import pytest

from scheduler.protocol import ERRORS, Refused

from .asking import Exchange, until
from .client_libraries import ANTHROPIC, CHAT, HI, LIBRARIES, RESPONSE, TEXT, address_of
from .fakes import Connection, Received, Script
from .ollama_child import answers

WORDS = "because it is so"
RAISED: dict[str, tuple[type[Exception], type[Exception]]] = {
    "invalid_request": (openai.BadRequestError, anthropic.BadRequestError),
    "invalid_api_key": (openai.AuthenticationError, anthropic.AuthenticationError),
    "permission_denied": (openai.PermissionDeniedError, anthropic.PermissionDeniedError),
    "model_not_found": (openai.NotFoundError, anthropic.NotFoundError),
    "conflict": (openai.ConflictError, anthropic.ConflictError),
    "validation_failed": (openai.UnprocessableEntityError, anthropic.UnprocessableEntityError),
    "model_queue_full": (openai.RateLimitError, anthropic.RateLimitError),
    "body_too_large": (openai.APIStatusError, anthropic.APIStatusError),
    "queue_full": (openai.InternalServerError, anthropic.InternalServerError),
    "model_load_failed": (openai.InternalServerError, anthropic.InternalServerError),
    "model_died": (openai.InternalServerError, anthropic.InternalServerError),
    "first_byte_timeout": (openai.InternalServerError, anthropic.InternalServerError),
}
"""By code: of OpenAI's library and of Anthropic's."""

NOT_OLLAMAS_WORDS = {"model_not_found"}


def kind_of(name: str, code: str) -> type[Exception]:
    if name.startswith("ollama"):
        return ollama.ResponseError
    return RAISED[code][name.startswith("anthropic")]


@pytest.mark.parametrize("code", RAISED)
@pytest.mark.parametrize("name", LIBRARIES)
async def test_a_refusal_is_the_exception_for_it(house, name: str, code: str) -> None:
    library, _ = LIBRARIES[name]
    async with house(answers({})) as h, address_of(h.app) as url:
        h.scheduler.refusal = Refused(code, WORDS, retry_after_seconds=7.0)
        with pytest.raises(kind_of(name, code)) as raised:
            await library(url, lambda _: None)

    error: Any = raised.value
    assert error.status_code == ERRORS[code].status
    if not (name.startswith("ollama") and code in NOT_OLLAMAS_WORDS):
        assert WORDS in str(error)
    if not name.startswith("ollama"):
        assert error.response.headers["retry-after"] == "7"
        assert error.body["error"]["code"] if "anthropic" in name else error.code == code


BODIES: dict[str, Any] = {"openai": {"choices": []}, "anthropic": {"type": "message"}}


async def asked_patiently(url: str, name: str) -> None:
    if name == "openai":
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=2) as client:
            await client.chat.completions.create(model="tiny", messages=HI)
    else:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=2) as patient:
            await patient.messages.create(model="tiny", messages=HI, max_tokens=2)


@pytest.mark.parametrize("name", BODIES)
async def test_what_waiting_cures_is_asked_for_again(house, name: str) -> None:
    async with house(answers(BODIES[name])) as h, address_of(h.app) as url:
        h.scheduler.passing = [Refused("queue_full", WORDS, retry_after_seconds=0.1)]
        await asked_patiently(url, name)

        assert len(h.scheduler.asked) == 2


@pytest.mark.parametrize("code", ["model_load_failed", "invalid_request", "model_too_large"])
@pytest.mark.parametrize("name", BODIES)
async def test_what_it_does_not_cure_is_asked_for_once(house, name: str, code: str) -> None:
    async with house(answers(BODIES[name])) as h, address_of(h.app) as url:
        h.scheduler.refusal = Refused(code, WORDS)
        with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)):
            await asked_patiently(url, name)

        assert len(h.scheduler.asked) == 1


@pytest.mark.parametrize("name", BODIES)
async def test_a_childs_500_over_a_clients_mistake_is_asked_for_once(house, name: str) -> None:
    error = {"code": 500, "message": "image input is not supported", "type": "server_error"}
    script = answers({"error": error}, status="500 Oops")
    async with house(script) as h, address_of(h.app) as url:
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)):
            await asked_patiently(url, name)

        assert len(h.child.received) == 1


def goes_on(first: bytes) -> Script:
    async def script(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        while True:
            await child.say(first)

    return script


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("/v1/chat/completions", CHAT),
        ("/v1/completions", TEXT),
        ("/v1/responses", RESPONSE),
        ("/v1/messages", ANTHROPIC),
        ("/api/chat", CHAT),
        ("/api/generate", CHAT),
    ],
)
async def test_a_client_that_leaves_in_mid_stream_frees_its_slot(house, path, first) -> None:
    said = {"input": "x"} if "responses" in path else {"messages": HI, "prompt": "x"}
    asked = {"model": "tiny", "stream": True, **said}
    async with house(goes_on(first)) as h:
        exchange = Exchange(h.app, path, body=json.dumps(asked).encode())
        await until(lambda: exchange.body)
        exchange.leave()
        await exchange.end()
        await h.scheduler.until_all_released()
        await until(lambda: h.child.ended)

    assert exchange.status == 200
    assert b"error" not in exchange.body
