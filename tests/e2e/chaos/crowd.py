"""Those who ask during the storm, and what became of each of their requests."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Any

import aiohttp

from tests.support.asking import CHAT

from .stage import FRAGILE, MOCK, ONE_AT_A_TIME, PRESETS, SILENCE_SECONDS, Stage

PROMPTS = {
    "Say something.": 4,
    "one two three four": 16,
    "What is a horse?": 48,
    "Tell me all that you know, and more.": 120,
}
"""What is asked, and how many tokens each answer has."""
POPULAR = {"alpha": 6, "beta": 4, "gamma": 3, "slow": 3, FRAGILE: 2, MOCK: 2}
CLIENTS = 12
LEAVES = 0.15
"""The share of those who do not wait for the end of their answer."""
RUDE = 0.03
"""The share of those who leave in the middle of their own request."""
KEYS_UNKNOWN = "auth_unavailable"
REFUSALS = frozenset(
    {
        "model_died",
        "model_load_failed",
        "model_backing_off",
        "model_broken",
        "model_stopped",
        "preset_invalid",
        "out_of_memory",
        "unloaded",
        "queue_timeout",
        "queue_full",
        "first_byte_timeout",
        "answer_timeout",
        "request_crashes_model",
        "scheduler_unavailable",
        KEYS_UNKNOWN,
    }
)
"""What a client may be told while things break. Anything else is a fault of ours."""


class Fate(StrEnum):
    WHOLE = auto()
    REFUSED = auto()  # an error in the dialect
    BROKEN_OFF = auto()  # a stream that ends with an error event
    CUT = auto()  # the connection broke
    LEFT = auto()  # the client itself
    WRONG = auto()  # it claims to be whole and is not, or says what it must not
    SILENT = auto()  # no end within all limits


@dataclass(frozen=True)
class Outcome:
    fate: Fate
    preset: str
    stream: bool
    began: float
    ended: float
    detail: str = ""


@dataclass
class Crowd:
    stage: Stage
    random: random.Random
    outcomes: list[Outcome] = field(default_factory=list)
    known: dict[tuple[str, str], str] = field(default_factory=dict)
    """The one right answer by preset and prompt."""

    async def learn(self) -> None:
        """Before the storm: each prompt gets the same text from a model whenever and however it is
        asked, and no two models agree on all of them."""
        async with self._session() as session:
            for preset in PRESETS:
                for prompt in PROMPTS:
                    answer = await _plain(session, _body(preset, prompt), self.stage.keys[0])
                    self.known[preset, prompt] = answer
                again = [
                    self._ask(session, self.stage.keys[0], preset, prompt, stream=stream)
                    for prompt in PROMPTS
                    for stream in (False, True)
                ]
                for outcome in await asyncio.gather(*again):
                    assert outcome.fate is Fate.WHOLE, outcome
        texts = {tuple(self.known[preset, prompt] for prompt in PROMPTS) for preset in PRESETS}
        assert len(texts) == len(PRESETS), "two models say the same"

    async def ask_until(self, over: asyncio.Event) -> None:
        async with self._session() as session, asyncio.TaskGroup() as clients:
            for number in range(CLIENTS):
                key = self.stage.keys[number % len(self.stage.keys)]
                clients.create_task(self._client(session, key, over))

    async def burst(self, count: int) -> None:
        """All at once, for one model."""
        preset, prompt = self._choice()
        async with self._session() as session:
            keys = [self.random.choice(self.stage.keys) for _ in range(count)]
            asked = [self._ask(session, key, preset, prompt, stream=False) for key in keys]
            self.outcomes += await asyncio.gather(*asked)

    async def answered_by(self, preset: str, seconds: float) -> float:
        """Asks until it is answered rightly, as often as it is told to; after how many seconds."""
        began = time.monotonic()
        prompt = next(iter(PROMPTS))
        async with self._session() as session:
            while True:
                outcome = await self._ask(session, self.stage.keys[0], preset, prompt, stream=False)
                if outcome.fate is Fate.WHOLE:
                    return time.monotonic() - began
                assert outcome.fate in (Fate.REFUSED, Fate.CUT), outcome
                if time.monotonic() - began > seconds:
                    raise AssertionError(f"{preset} does not recover: {outcome}")
                await asyncio.sleep(0.25)

    async def _client(self, session: aiohttp.ClientSession, key: str, over: asyncio.Event) -> None:
        while not over.is_set():
            preset, prompt = self._choice()
            if self.random.random() < RUDE:
                await self._leave_half_way(key, preset)
                continue
            stream = self.random.random() < 0.5
            patience = self.random.uniform(0, 1.5) if self.random.random() < LEAVES else None
            began = time.monotonic()
            try:
                async with asyncio.timeout(patience):
                    outcome = await self._ask(session, key, preset, prompt, stream=stream)
            except TimeoutError:
                outcome = Outcome(Fate.LEFT, preset, stream, began, time.monotonic())
            self.outcomes.append(outcome)
            await asyncio.sleep(self.random.expovariate(6 if outcome.fate is Fate.WHOLE else 2))

    def _choice(self) -> tuple[str, str]:
        preset = self.random.choices(list(POPULAR), list(POPULAR.values()))[0]
        return preset, self.random.choice(list(PROMPTS))

    async def _leave_half_way(self, key: str, preset: str) -> None:
        """The head announces more than comes."""
        port = self.stage.gateway.client.port
        body = json.dumps(_body(preset, "half")).encode()
        head = (
            f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(head.encode() + body[: self.random.randrange(len(body))])
            await asyncio.sleep(self.random.uniform(0, 0.3))
        finally:
            writer.transport.abort()

    async def _ask(
        self, session: aiohttp.ClientSession, key: str, preset: str, prompt: str, *, stream: bool
    ) -> Outcome:
        began = time.monotonic()
        read = _streamed if stream else _plain
        fate, detail = Fate.WHOLE, ""
        try:
            async with asyncio.timeout(SILENCE_SECONDS) as silence:
                text = await read(session, _body(preset, prompt), key)
            if text != self.known[preset, prompt]:
                fate, detail = Fate.WRONG, f"{prompt!r} got {text!r}"
        except _Told as told:
            fate, detail = told.fate, told.detail
        except TimeoutError:
            if not silence.expired():
                raise
            fate = Fate.SILENT
        except (aiohttp.ClientError, ConnectionError) as broken:
            fate, detail = Fate.CUT, repr(broken)
        return Outcome(fate, preset, stream, began, time.monotonic(), detail)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        timeout = aiohttp.ClientTimeout(total=None)
        url = self.stage.gateway.base_url
        async with aiohttp.ClientSession(url, connector=connector, timeout=timeout) as session:
            yield session


class _Told(Exception):
    """The answer is none, and says so."""

    def __init__(self, fate: Fate, detail: str) -> None:
        super().__init__(detail)
        self.fate = fate
        self.detail = detail


def _body(preset: str, prompt: str) -> dict[str, Any]:
    """Greedy, and with nothing taken from the slot's cache: the same answer each time. The penalty
    makes a text in which no two places are alike, so that one lost is seen."""
    penalty = {"repeat_penalty": 1.5} if preset in ONE_AT_A_TIME else {}
    return {
        "model": preset,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": PROMPTS.get(prompt, 4),
        "ignore_eos": True,
        "temperature": 0,
        "cache_prompt": False,
        **penalty,
    }


async def _plain(session: aiohttp.ClientSession, body: dict[str, Any], key: str) -> str:
    headers = {"Authorization": f"Bearer {key}"}
    async with session.post(CHAT, json=body, headers=headers) as answer:
        payload = await answer.json(content_type=None)
        if answer.status != 200:
            raise _refusal(answer, payload)
        [choice] = payload["choices"]
        _whole_as_asked(body, payload["model"], [choice["finish_reason"]])
        return choice["message"]["content"]


async def _streamed(session: aiohttp.ClientSession, body: dict[str, Any], key: str) -> str:
    headers = {"Authorization": f"Bearer {key}"}
    async with session.post(CHAT, json=body | {"stream": True}, headers=headers) as answer:
        if answer.status != 200:
            raise _refusal(answer, await answer.json(content_type=None))
        text, reasons, model, done = "", [], body["model"], False
        async for line in answer.content:
            if done and line.strip():
                raise _Told(Fate.WRONG, f"{line!r} after [DONE]")
            done = done or line.strip() == b"data: [DONE]"
            if done or not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise await _error_event(answer, event)
            model = event.get("model", model)
            for choice in event["choices"]:
                text += choice["delta"].get("content") or ""
                reasons.append(choice.get("finish_reason"))
        if not done:
            raise _Told(Fate.WRONG, f"a stream ends without a word, after {text!r}")
        _whole_as_asked(body, model, reasons)
        return text


def _whole_as_asked(body: dict[str, Any], model: str, reasons: Iterable[str | None]) -> None:
    if not any(reasons) or model != body["model"]:
        raise _Told(Fate.WRONG, f"{model} for {body['model']}, finished by {list(reasons)}")


def _refusal(answer: aiohttp.ClientResponse, payload: Any) -> _Told:
    code = _code(payload)
    if code not in REFUSALS or answer.status < 429 or "x-request-id" not in answer.headers:
        return _Told(Fate.WRONG, f"{answer.status} {payload} {dict(answer.headers)}")
    return _Told(Fate.REFUSED, code)


async def _error_event(answer: aiohttp.ClientResponse, event: Any) -> _Told:
    rest = await answer.content.read()
    if _code(event) not in REFUSALS or rest.strip():
        return _Told(Fate.WRONG, f"{event}, and then {rest!r}")
    return _Told(Fate.BROKEN_OFF, _code(event))


def _code(payload: Any) -> str:
    """Empty for what is no error in OpenAI's shape."""
    error = payload.get("error") if isinstance(payload, dict) else None
    if not isinstance(error, dict) or not error.get("message"):
        return ""
    return str(error.get("code") or "")
