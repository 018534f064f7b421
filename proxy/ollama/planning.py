"""From a request of Ollama's to one of llama-server's. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from mmap import mmap
from typing import Any

import msgspec

from proxy.bounds import check_bounds
from proxy.ollama import wire
from proxy.ollama.context import Said, packed, unpacked
from proxy.ollama.keep_alive import keep_alive_of
from proxy.ollama.messages import images_in, spoken, turn
from proxy.ollama.options import Options, options_of
from proxy.ollama.template import rendered
from scheduler.protocol import Refused

CHAT_PATH, TEXT_PATH, INFILL_PATH = "/v1/chat/completions", "/v1/completions", "/infill"
EMBED_PATH = "/v1/embeddings"


@dataclass(frozen=True, slots=True)
class Plan:
    """`path` and `body` are for the child: an empty path where the model is only to be loaded, or
    let go. `needs` are what the model has to be able to, in Ollama's words. `finally_told` is what
    the last object of the answer holds besides, by the whole text."""

    path: str
    body: Mapping[str, Any]
    keep_alive: float | None
    ignored: bytes
    streams: bool = False
    needs: frozenset[str] = frozenset()
    finally_told: Callable[[str], dict[str, Any]] | None = None
    dimensions: int | None = None


def planned(path: str, body: bytes | mmap, model: str) -> tuple[Plan, bytes] | Refused:
    """The plan, and the body for the child. A refusal is returned, not raised: it would hold on to
    the bytes of the body, which could not be closed."""
    try:
        plan = _planned(path, body, model)
        translated = msgspec.json.encode(plan.body)
        check_bounds(translated)
        return replace(plan, body={}), translated
    except Refused as refused:
        return Refused(refused.code, refused.message)


def _planned(path: str, body: bytes | mmap, model: str) -> Plan:
    match path:
        case "/api/chat":
            return plan_chat(model, wire.decoded(body, wire.Chat))
        case "/api/generate":
            return plan_generate(model, wire.decoded(body, wire.Generate))
        case "/api/embed":
            return plan_embed(model, wire.decoded(body, wire.Embed))
    return plan_embeddings(model, wire.decoded(body, wire.Embeddings))


def plan_chat(model: str, asked: wire.Chat) -> Plan:
    """Raises Refused."""
    options, keep = options_of(wire.options_in(asked.options)), keep_alive_of(asked.keep_alive)
    if not asked.messages:
        return Plan("", {}, keep, options.header(), streams=asked.streams)
    needs = {"vision"} if any(message.images for message in asked.messages) else set()
    body = {**_asked_for(model, asked, options), "messages": spoken(asked.messages)}
    if wire.is_given(asked.tools):
        body["tools"] = asked.tools
        needs.add("tools")
    return _carried(CHAT_PATH, body, asked, options, keep, needs)


def plan_generate(model: str, asked: wire.Generate) -> Plan:
    """Raises Refused."""
    options, keep = options_of(wire.options_in(asked.options)), keep_alive_of(asked.keep_alive)
    prompt, suffix = asked.prompt or "", asked.suffix or ""
    if not prompt and not suffix:
        return Plan("", {}, keep, options.header(), streams=asked.streams)
    _refuse_what_does_not_go_together(asked)
    if suffix and not asked.template:
        body = {"model": model, "stream": True, "input_prefix": prompt, "input_suffix": suffix}
        sampling = {**options.sampling}
        if (most := sampling.pop("max_tokens", None)) is not None:
            sampling["n_predict"] = most
        if (probabilities := wire.logprobs_in(asked)) is not None:
            sampling["n_probs"] = max(1, probabilities)
        return _carried(INFILL_PATH, {**body, **sampling}, asked, options, keep, set())
    if asked.raw or asked.template:
        return _plan_text(model, asked, options, keep)
    turns = _turns(asked)
    messages = [turn(*each) for each in turns]
    if asked.images:
        messages[-1]["content"] = images_in(prompt, asked.images)
    body = {**_asked_for(model, asked, options), "messages": messages}

    def finally_told(text: str) -> dict[str, Any]:
        return _context(Said([*turns, ("assistant", text)]))

    needs = {"vision"} if asked.images else set()
    return _carried(CHAT_PATH, body, asked, options, keep, needs, finally_told)


def plan_embed(model: str, asked: wire.Embed) -> Plan:
    """Raises Refused."""
    options, keep = options_of(wire.options_in(asked.options)), keep_alive_of(asked.keep_alive)
    if asked.dimensions is not None and asked.dimensions < 1:
        raise Refused("invalid_request", "`dimensions` must be at least 1.")
    if not asked.input:
        return Plan("", {}, keep, options.header())
    body = {"model": model, "input": asked.input, "encoding_format": "float"}
    return Plan(EMBED_PATH, body, keep, options.header(), dimensions=asked.dimensions)


def plan_embeddings(model: str, asked: wire.Embeddings) -> Plan:
    """The older form: one text, and its vector at its own length. Raises Refused."""
    options, keep = options_of(wire.options_in(asked.options)), keep_alive_of(asked.keep_alive)
    if not asked.prompt:
        return Plan("", {}, keep, options.header())
    body = {"model": model, "input": asked.prompt, "encoding_format": "float", "embd_normalize": -1}
    return Plan(EMBED_PATH, body, keep, options.header())


def _plan_text(model: str, asked: wire.Generate, options: Options, keep: float | None) -> Plan:
    """By a template of the request's own, or by none."""
    prompt, finally_told = asked.prompt or "", None
    if not asked.raw:
        before = unpacked(asked.context)
        if before is not None and before.turns:
            raise Refused("invalid_request", "`context` is of a chat: `template` cannot go on.")
        values = {"System": asked.system or "", "Prompt": prompt, "Suffix": asked.suffix or ""}
        prompt = (before.text if before else "") + rendered(asked.template or "", values)

        def finally_told(text: str) -> dict[str, Any]:
            return _context(Said(text=prompt + text))

    body = {**_asked_for(model, asked, options), "prompt": prompt}
    for name in ("response_format", "chat_template_kwargs", "reasoning_effort", "top_logprobs"):
        body.pop(name, None)
    if (schema := wire.schema_in(asked.format)) != "":
        body["json_schema"] = {"type": "object"} if schema == "json" else schema
    if (probabilities := wire.logprobs_in(asked)) is not None:
        body["logprobs"] = max(1, probabilities)
    return _carried(TEXT_PATH, body, asked, options, keep, set(), finally_told)


def _asked_for(model: str, asked: wire.Asking, options: Options) -> dict[str, Any]:
    """What chat and generate have in common."""
    body: dict[str, Any] = {
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
        **options.sampling,
    }
    schema = wire.schema_in(asked.format)
    if schema == "json":
        body["response_format"] = {"type": "json_object"}
    elif schema != "":
        named = {"name": "answer", "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    think = wire.think_in(asked.think)
    if think is not None:
        body["chat_template_kwargs"] = {"enable_thinking": think is not False}
    if isinstance(think, str):
        effort = "high" if think == "max" else think
        body["chat_template_kwargs"]["reasoning_effort"] = effort
        body["reasoning_effort"] = effort
    if (probabilities := wire.logprobs_in(asked)) is not None:
        body |= {"logprobs": True, "top_logprobs": probabilities}
    return body


def _carried(
    path: str,
    body: Mapping[str, Any],
    asked: wire.Asking,
    options: Options,
    keep: float | None,
    needs: set[str],
    finally_told: Callable[[str], dict[str, Any]] | None = None,
) -> Plan:
    if wire.think_in(asked.think) not in (None, False):
        needs = {*needs, "thinking"}
    needed = frozenset(needs)
    return Plan(path, body, keep, options.header(), asked.streams, needed, finally_told)


def _refuse_what_does_not_go_together(asked: wire.Generate) -> None:
    if asked.raw and (asked.template or asked.system or wire.is_given(asked.context)):
        raise Refused("invalid_request", "raw mode does not support template, system, or context")
    if asked.images and (asked.raw or asked.template or asked.suffix):
        raise Refused(
            "invalid_request",
            "`images` need the model's own template: leave `raw`, `template` and `suffix` out.",
        )


def _turns(asked: wire.Generate) -> list[tuple[str, str]]:
    before = unpacked(asked.context)
    if before is not None and before.text:
        raise Refused("invalid_request", "`context` is of a `template`: send that again, too.")
    turns = list(before.turns) if before else []
    if asked.system:
        turns = [("system", asked.system), *(each for each in turns if each[0] != "system")]
    return [*turns, ("user", asked.prompt or "")]


def _context(said: Said) -> dict[str, Any]:
    return {"context": packed(said)}
