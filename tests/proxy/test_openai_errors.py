"""What the official Python client makes of our refusals: the exception's class, and its retries."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import openai
import pytest

from proxy.callers import Caller
from scheduler.protocol import ERRORS, Refused

from .asking import until
from .conftest import House
from .fakes import Connection, Received

CLASSES = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    409: openai.ConflictError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
}
BY_THE_SCHEDULER = sorted(
    code for code, kind in ERRORS.items() if kind.status in (*CLASSES, 500, 502, 503, 504)
)
RETRIES = 2


class OpenAI(openai.AsyncOpenAI):
    """Tells how long it would have slept before each further try, and does not."""

    def __init__(self, house: House) -> None:
        transport = httpx2.ASGITransport(house.app)
        super().__init__(
            base_url="http://gateway/v1",
            api_key="k",
            max_retries=RETRIES,
            http_client=httpx2.AsyncClient(transport=transport),
        )
        self.pauses: list[float] = []

    def _calculate_retry_timeout(self, *args: Any, **kwargs: Any) -> float:
        self.pauses.append(super()._calculate_retry_timeout(*args, **kwargs))
        return 0.0

    async def ask(self, **fields: Any) -> Any:
        return await self.chat.completions.create(model="tiny", messages=[], **fields)


@pytest.fixture
async def client() -> AsyncIterator[Callable[[House], OpenAI]]:
    made: list[OpenAI] = []

    def make(house: House) -> OpenAI:
        made.append(OpenAI(house))
        return made[-1]

    yield make
    for each in made:
        await each.close()


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b'{"choices":[]}')


class NoKey:
    def as_known(self, caller: Caller) -> Caller:
        return caller

    async def identify(self, headers: object, by_session: object = None) -> Caller:
        raise Refused("invalid_api_key", "This API key is not valid, or no longer.")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("code", BY_THE_SCHEDULER)
async def test_each_refusal_is_an_exception_of_its_status_and_tried_again_if_that_helps(
    house, client, code
):
    async with house(answers) as h:
        h.scheduler.refusal = Refused(code, "so it is", retry_after_seconds=3.0)
        asking = client(h)
        with pytest.raises(openai.APIStatusError) as raised:
            await asking.ask()

    kind = ERRORS[code]
    assert type(raised.value) is CLASSES.get(kind.status, openai.InternalServerError)
    assert (raised.value.status_code, raised.value.code) == (kind.status, code)
    assert raised.value.body["message"] == "so it is"
    tries = RETRIES if kind.retry else 0
    assert (len(h.scheduler.asked), asking.pauses) == (tries + 1, [3.0] * tries)


async def test_a_wrong_key_is_an_authentication_error_and_not_tried_again(house, client):
    async with house(answers, keys=NoKey()) as h:
        asking = client(h)
        with pytest.raises(openai.AuthenticationError) as raised:
            await asking.ask()

    assert (raised.value.code, asking.pauses) == ("invalid_api_key", [])


async def test_a_try_that_helps_is_the_answer(house, client):
    async with house(answers) as h:
        h.scheduler.refusal = Refused("queue_full", "full", retry_after_seconds=1.0)
        asking = client(h)
        calculate = asking._calculate_retry_timeout

        def room_again(*args: Any, **kwargs: Any) -> float:
            h.scheduler.refusal = None
            return calculate(*args, **kwargs)

        asking._calculate_retry_timeout = room_again
        answer = await asking.ask()

    assert (answer.choices, asking.pauses) == ([], [1.0])


async def test_a_stream_that_breaks_is_an_error_in_the_middle_of_it(house, client):
    async def breaks(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        chunk = {"choices": [{"index": 0, "delta": {"content": "a"}}]}
        await child.say(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    async with house(breaks) as h:
        stream = aiter(await client(h).ask(stream=True))
        assert (await anext(stream)).choices[0].delta.content == "a"
        with pytest.raises(openai.APIError) as raised:
            await anext(stream)
        await until(lambda: not h.scheduler.held)

    assert raised.value.code == "model_died"
