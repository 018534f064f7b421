"""One question in the words of each dialect, and what was said in those of none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.asking import Client

Body = dict[str, Any]


@dataclass(frozen=True)
class Wish:
    """`tool` has no parameters, and its call is begun already: random weights begin none."""

    text: str = "Hello"
    tokens: int = 4
    picture: str = ""
    address: str = ""
    """Of a picture that somebody would have to fetch."""
    tool: str = ""
    schema: Body | None = None
    stop: str = ""
    logprobs: bool = False

    @property
    def url(self) -> str:
        """Of the picture, if there is one."""
        held = f"data:image/png;base64,{self.picture}" if self.picture else ""
        return self.address or held


@dataclass
class Said:
    text: str = ""
    thought: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    stop: str = ""
    logprobs: int = 0

    def call(self, name: str, arguments: str) -> None:
        """One that the limit has cut is none."""
        try:
            self.calls.append((name, json.loads(arguments)))
        except ValueError:
            assert self.stop in ("", "limit")


BEGUN = "<tool_call>\n"
_NOTHING = {"type": "object", "properties": {}}
_STOPS = {
    "length": "limit",
    "max_tokens": "limit",
    "stop": "end",
    "end_turn": "end",
    "tool_calls": "end",
    "tool_use": "end",
}


def chat(wish: Wish) -> Body:
    content: Any = wish.text
    if url := wish.url:
        image = {"type": "image_url", "image_url": {"url": url}}
        content = [{"type": "text", "text": wish.text}, image]
    body: Body = {"messages": [{"role": "user", "content": content}], "max_tokens": wish.tokens}
    if wish.tool:
        body["messages"].append({"role": "assistant", "content": BEGUN})
        body["tools"] = [
            {"type": "function", "function": {"name": wish.tool, "parameters": _NOTHING}}
        ]
        body["tool_choice"] = "required"
    if wish.schema:
        form = {"name": "n", "schema": wish.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    if wish.stop:
        body["stop"] = [wish.stop]
    if wish.logprobs:
        body |= {"logprobs": True, "top_logprobs": 2}
    return body


def completions(wish: Wish) -> Body:
    body: Body = {"prompt": wish.text, "max_tokens": wish.tokens}
    if wish.stop:
        body["stop"] = [wish.stop]
    if wish.logprobs:
        body["logprobs"] = 2
    return body


def responses(wish: Wish) -> Body:
    content: list[Body] = [{"type": "input_text", "text": wish.text}]
    if url := wish.url:
        content.append({"type": "input_image", "image_url": url})
    body: Body = {
        "input": [{"role": "user", "content": content}],
        "max_output_tokens": wish.tokens,
    }
    if wish.tool:
        begun = [{"type": "output_text", "text": BEGUN}]
        body["input"].append({"type": "message", "role": "assistant", "content": begun})
        body["tools"] = [{"type": "function", "name": wish.tool, "parameters": _NOTHING}]
        body["tool_choice"] = "required"
    if wish.schema:
        body["text"] = {"format": {"type": "json_schema", "name": "n", "schema": wish.schema}}
    if wish.stop:
        body["stop"] = [wish.stop]
    if wish.logprobs:
        body["top_logprobs"] = 2
    return body


def anthropic(wish: Wish) -> Body:
    content: Any = wish.text
    if wish.url:
        source = {"type": "base64", "media_type": "image/png", "data": wish.picture}
        if wish.address:
            source = {"type": "url", "url": wish.address}
        content = [{"type": "text", "text": wish.text}, {"type": "image", "source": source}]
    body: Body = {"messages": [{"role": "user", "content": content}], "max_tokens": wish.tokens}
    if wish.tool:
        body["messages"].append({"role": "assistant", "content": BEGUN})
        body["tools"] = [{"name": wish.tool, "input_schema": _NOTHING}]
        body["tool_choice"] = {"type": "any"}
    if wish.schema:
        body["output_config"] = {"format": {"type": "json_schema", "schema": wish.schema}}
    if wish.stop:
        body["stop_sequences"] = [wish.stop]
    return body


def _ollama(wish: Wish) -> Body:
    options: Body = {"num_predict": wish.tokens}
    if wish.stop:
        options["stop"] = [wish.stop]
    body: Body = {"options": options}
    if wish.schema:
        body["format"] = wish.schema
    if wish.logprobs:
        body |= {"logprobs": True, "top_logprobs": 2}
    return body


def ollama_chat(wish: Wish) -> Body:
    message: Body = {"role": "user", "content": wish.text}
    if wish.url:
        message["images"] = [wish.address or wish.picture]
    body = {"messages": [message], **_ollama(wish)}
    if wish.tool:
        body["messages"].append({"role": "assistant", "content": BEGUN})
        body["tools"] = [
            {"type": "function", "function": {"name": wish.tool, "parameters": _NOTHING}}
        ]
    return body


def ollama_generate(wish: Wish) -> Body:
    images = {"images": [wish.address or wish.picture]} if wish.url else {}
    return {"prompt": wish.text, **images, **_ollama(wish)}


def ollama_raw(wish: Wish) -> Body:
    return {"prompt": wish.text, "raw": True, **_ollama(wish)}


# What was said ---------------------------------------------------------------------------------


def heard_chat(events: list[Body]) -> Said:
    said, calls = Said(), {}
    for choice in (choice for event in events for choice in event["choices"]):
        told = choice.get("delta") or choice.get("message") or {}
        said.text += told.get("content") or choice.get("text") or ""
        said.thought += told.get("reasoning_content") or ""
        said.logprobs += len((choice.get("logprobs") or {}).get("content") or ())
        said.stop = _STOPS.get(choice["finish_reason"], said.stop)
        for number, call in enumerate(told.get("tool_calls") or ()):
            one = calls.setdefault(call.get("index", number), ["", ""])
            one[0] += call["function"].get("name", "")
            one[1] += call["function"].get("arguments", "")
    for name, arguments in calls.values():
        said.call(name, arguments)
    return said


def heard_responses(events: list[Body]) -> Said:
    said = Said(stop="unsaid")
    whole = events[-1].get("response", events[-1])
    assert whole["status"] == "completed"
    for item in whole["output"]:
        if item["type"] == "function_call":
            said.stop = ""
            said.call(item["name"], item["arguments"])
            said.stop = "unsaid"
            continue
        text = "".join(part["text"] for part in item["content"])
        if item["type"] == "reasoning":
            said.thought += text
        else:
            said.text += text
    if len(events) > 1:
        deltas = [each for each in events if each["type"] == "response.output_text.delta"]
        assert "".join(each["delta"] for each in deltas) == said.text
    return said


def heard_anthropic(events: list[Body]) -> Said:
    said = Said()
    if len(events) == 1:
        blocks = events[0]["content"]
        said.stop = _STOPS[events[0]["stop_reason"]]
    else:
        assert events[-1]["type"] == "message_stop"
        blocks = _blocks(events)
        ends = [each["delta"] for each in events if each["type"] == "message_delta"]
        said.stop = _STOPS[ends[-1]["stop_reason"]]
    for block in blocks:
        said.text += block.get("text", "")
        said.thought += block.get("thinking", "")
        if block["type"] == "tool_use" and "pieces" in block:
            said.call(block["name"], block["pieces"])
        elif block["type"] == "tool_use":
            said.calls.append((block["name"], block["input"]))
    return said


def _blocks(events: list[Body]) -> list[Body]:
    blocks: dict[int, Body] = {}
    for event in events:
        if event["type"] == "content_block_start":
            blocks[event["index"]] = {"pieces": "", **event["content_block"]}
        elif event["type"] == "content_block_delta":
            block, delta = blocks[event["index"]], event["delta"]
            for name in ("text", "thinking"):
                if name in delta:
                    block[name] += delta[name]
            block["pieces"] += delta.get("partial_json", "")
    return list(blocks.values())


def heard_ollama(events: list[Body]) -> Said:
    said = Said()
    assert events[-1]["done"]
    for event in events:
        told = event.get("message", event)
        said.text += told.get("content") or told.get("response") or ""
        said.thought += told.get("thinking") or ""
        said.logprobs += len(event.get("logprobs") or ())
        for call in told.get("tool_calls") or ():
            said.calls.append((call["function"]["name"], call["function"]["arguments"]))
    said.stop = _STOPS[events[-1]["done_reason"]]
    return said


@dataclass(frozen=True)
class Dialect:
    path: str
    body: Callable[[Wish], Body]
    heard: Callable[[list[Body]], Said]
    model: str = ""
    """Another name for a model that has to call tools, where the dialect has no word for that."""


DIALECTS = {
    "chat": Dialect("/v1/chat/completions", chat, heard_chat),
    "responses": Dialect("/v1/responses", responses, heard_responses),
    "anthropic": Dialect("/v1/messages", anthropic, heard_anthropic),
    "ollama chat": Dialect("/api/chat", ollama_chat, heard_ollama, model="caller"),
    "ollama generate": Dialect("/api/generate", ollama_generate, heard_ollama),
    "completions": Dialect("/v1/completions", completions, heard_chat),
    "ollama raw": Dialect("/api/generate", ollama_raw, heard_ollama),
}


class Unsaid(Exception):
    """The dialect's refusal: (status, message)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def ask(client: Client, name: str, wish: Wish, model: str, *, stream: bool) -> Said:
    """Raises Unsaid."""
    dialect = DIALECTS[name]
    if wish.tool and dialect.model:
        model = dialect.model
    body = {"model": model, **dialect.body(wish), "stream": stream}
    answer = client.request("POST", dialect.path, body)
    if answer.status != 200:
        error = answer.json["error"]
        raise Unsaid(answer.status, error if isinstance(error, str) else error["message"])
    return dialect.heard(_events(answer.body) if stream else [answer.json])


def _events(body: bytes) -> list[Body]:
    """Of a stream of events, or of lines."""
    lines = body.decode().splitlines()
    told = [line.removeprefix("data: ") for line in lines if line.startswith(("data: ", "{"))]
    return [json.loads(each) for each in told if each != "[DONE]"]
