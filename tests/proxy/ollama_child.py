"""A child that answers as llama-server does, for requests that came as Ollama's."""

from __future__ import annotations

import json
from typing import Any

from .asking import Exchange
from .fakes import Connection, Received, Script

TIMINGS = {
    "cache_n": 3, "prompt_n": 4, "prompt_ms": 20.0, "predicted_n": 2, "predicted_ms": 100.5,
}  # fmt: skip
END = {
    "choices": [],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
    "timings": TIMINGS,
}
COUNTS = {
    "prompt_eval_count": 7,
    "prompt_eval_duration": 20_000_000,
    "eval_count": 2,
    "eval_duration": 100_500_000,
}


def event(told: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % json.dumps(told).encode()


def delta(finish: str | None = None, **said: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": said, "finish_reason": finish}]})


def text(said: str, finish: str | None = None, **more: Any) -> bytes:
    return event({"choices": [{"index": 0, "text": said, "finish_reason": finish}], **more})


HELLO = (
    delta(role="assistant", content=None),
    delta(content="Hel"),
    delta(content="lo"),
    delta("stop"),
    event(END),
    b"data: [DONE]\n\n",
)


def streams(*parts: bytes) -> Script:
    async def script(request: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        for part in parts:
            await child.say(part)
        await child.finish()

    return script


def answers(body: dict[str, Any], status: str = "200 OK") -> Script:
    async def script(request: Received, child: Connection) -> None:
        await child.answer(json.dumps(body).encode(), status=status)

    return script


def lines_of(body: bytes) -> list[dict[str, Any]]:
    assert body.endswith(b"\n")
    return [json.loads(line) for line in body.splitlines()]


HI = [{"role": "user", "content": "hi"}]


def asking(app: Any, path: str = "/api/chat", headers: Any = (), **fields: Any) -> Exchange:
    fields = {"model": "tiny", **fields}
    return Exchange(app, path, body=json.dumps(fields).encode(), headers=headers)
