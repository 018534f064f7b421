"""A child's answer in Ollama's words: what has come of it, and how it ended. Nothing waits here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from proxy.ollama.frames import Events
from scheduler.protocol import Refused

Object = dict[str, Any]

DONE = b"[DONE]"
MOST_KEPT = 64 << 20
"""Bytes of an answer that is told in one piece."""


def told_at() -> str:
    """The time as Ollama writes it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds: in all, of these until the model was there, and until the first byte after that."""

    total: float
    load: float
    first: float

    def told(self, timings: Object) -> Object:
        """In nanoseconds. The child's own figures are taken where it states them."""
        answering = max(0.0, self.total - self.load - self.first)
        return {
            "total_duration": round(self.total * 1e9),
            "load_duration": round(self.load * 1e9),
            "prompt_eval_duration": _nanoseconds(timings.get("prompt_ms"), self.first),
            "eval_duration": _nanoseconds(timings.get("predicted_ms"), answering),
        }


@dataclass(slots=True)
class Telling:
    """Of one answer to `model`, as chat (`is_chat`) or as a text. `streams`: each piece is told as
    it comes; else all of it at the end. `finally_told` gets the whole text, and gives what only the
    last object holds."""

    model: str
    is_chat: bool
    streams: bool
    finally_told: Callable[[str], Object] | None = None
    failed: str = ""
    """Why the child could not go on, as its stream has told."""
    _events: Events = field(default_factory=Events)
    _calls: dict[int, Object] = field(default_factory=dict)
    _texts: list[str] = field(default_factory=list)
    _thoughts: list[str] = field(default_factory=list)
    _probabilities: list[Object] = field(default_factory=list)
    _kept: int = 0
    _finish: str = ""
    _usage: Object = field(default_factory=dict)
    _timings: Object = field(default_factory=dict)

    def heard(self, part: bytes, *, is_stream: bool) -> bytes:
        """The lines that can be told now. An answer that is no stream is heard in one piece. Raises
        Refused."""
        lines: list[bytes] = []
        for payload in self._events.push(part) if is_stream else (part,):
            if payload == DONE:
                self._finish = self._finish or "stop"
                continue
            event = _object(payload)
            if (error := error_in(event)) is not None:
                self.failed = error
            if self.failed:
                break
            if (told := self._take(event)) and self.streams:
                lines.append(line(self._object(told)))
        return b"".join(lines)

    def end(self, took: Took) -> list[Object]:
        """The last objects, of which the last one says so. Raises Refused where the answer is not
        whole."""
        if not self._finish:
            raise Refused("model_died", f"The answer of '{self.model}' broke off.")
        calls = self._whole_calls()
        objects: list[Object] = []
        told: Object = {}
        if not self.streams:
            told = {"text": "".join(self._texts), "thinking": "".join(self._thoughts)}
            told |= {"logprobs": self._probabilities, "calls": calls}
        elif calls:
            objects.append(self._object({"calls": calls}))
        last = self._object(told) | {"done": True, "done_reason": self._reason()}
        if self.finally_told is not None:
            last |= self.finally_told("".join(self._texts))
        return [*objects, last | took.told(self._timings) | self._counts()]

    def _take(self, event: Object) -> Object:
        """What is new; empty where nothing is."""
        self._usage = _dict(event, "usage") or self._usage
        self._timings = _dict(event, "timings") or self._timings
        choices = event.get("choices")
        if isinstance(choices, list):
            choice = choices[0] if choices and isinstance(choices[0], dict) else {}
            new = self._of_choice(choice)
        else:
            new = self._of_native(event)
        self._keep(new)
        return new

    def _of_choice(self, choice: Object) -> Object:
        said = _dict(choice, "delta") or _dict(choice, "message") or choice
        for number, call in enumerate(said.get("tool_calls") or ()):
            self._piece_of_call(call, number)
        self._finish = choice.get("finish_reason") or self._finish
        probabilities = _dict(choice, "logprobs").get("content")
        new = {
            "text": said.get("content") or said.get("text"),
            "thinking": said.get("reasoning_content") or said.get("reasoning"),
            "logprobs": [_probability(each) for each in probabilities or ()],
        }
        return {name: value for name, value in new.items() if value}

    def _of_native(self, event: Object) -> Object:
        """As /infill answers."""
        if event.get("stop"):
            self._finish = "length" if event.get("stop_type") == "limit" else "stop"
            read, answered = event.get("tokens_evaluated"), event.get("tokens_predicted")
            self._usage = {"prompt_tokens": read, "completion_tokens": answered}
        probabilities = [_probability(each) for each in event.get("completion_probabilities") or ()]
        new = {"text": event.get("content"), "logprobs": probabilities}
        return {name: value for name, value in new.items() if value}

    def _keep(self, new: Object) -> None:
        if self.streams and self.finally_told is None:
            return
        for name, kept in (("text", self._texts), ("thinking", self._thoughts)):
            if text := new.get(name):
                kept.append(text)
                self._count(len(text))
        if not self.streams and (probabilities := new.get("logprobs")):
            self._probabilities += probabilities
            self._count(1000 * len(probabilities))

    def _count(self, size: int) -> None:
        self._kept += size
        if self._kept > MOST_KEPT:
            raise Refused("upstream_failed", "The answer is too long for one piece: stream it.")

    def _piece_of_call(self, piece: Object, number: int) -> None:
        call = self._calls.setdefault(
            piece.get("index", number), {"id": "", "name": "", "arguments": []}
        )
        function = _dict(piece, "function")
        call["id"] = piece.get("id") or call["id"]
        call["name"] = function.get("name") or call["name"]
        arguments = function.get("arguments") or ""
        call["arguments"].append(arguments)
        self._count(len(arguments))

    def _whole_calls(self) -> list[Object]:
        """Raises Refused. One that the answer's limit has cut is none."""
        calls: list[Object] = []
        for index, call in sorted(self._calls.items()):
            text = "".join(call["arguments"])
            try:
                arguments = msgspec.json.decode(text or "{}", type=dict[str, Any])
            except (msgspec.MsgspecError, RecursionError) as error:
                if self._finish == "length":
                    break
                raise Refused(
                    "upstream_failed",
                    f"The arguments with which '{self.model}' calls {call['name']!r} are no JSON "
                    "object: ask again.",
                ) from error
            function = {"index": index, "name": call["name"], "arguments": arguments}
            calls.append({"id": call["id"], "function": function})
        return calls

    def _object(self, told: Object) -> Object:
        text, thinking = told.get("text", ""), told.get("thinking")
        thoughts = {"thinking": thinking} if thinking else {}
        told_at_all: Object = {"model": self.model, "created_at": told_at()}
        if self.is_chat:
            message = {"role": "assistant", "content": text, **thoughts}
            if calls := told.get("calls"):
                message["tool_calls"] = calls
            told_at_all["message"] = message
        else:
            told_at_all |= {"response": text, **thoughts}
        told_at_all["done"] = False
        if probabilities := told.get("logprobs"):
            told_at_all["logprobs"] = probabilities
        return told_at_all

    def _reason(self) -> str:
        return "length" if self._finish == "length" else "stop"

    def _counts(self) -> Object:
        usage, timings = self._usage, self._timings
        read = usage.get("prompt_tokens")
        if read is None and "prompt_n" in timings:
            read = timings["prompt_n"] + timings.get("cache_n", 0)
        answered = usage.get("completion_tokens", timings.get("predicted_n"))
        counts = {"prompt_eval_count": read, "eval_count": answered}
        return {name: count for name, count in counts.items() if count is not None}


def line(told: Object) -> bytes:
    return msgspec.json.encode(told) + b"\n"


def error_in(answer: Object) -> str | None:
    """The words of an error, as OpenAI's, llama.cpp's and Anthropic's APIs write it."""
    error = answer.get("error")
    if error is None:
        return None
    if isinstance(error, dict):
        error = error.get("message")
    return str(error or "the model has failed")


def _object(payload: bytes) -> Object:
    try:
        return msgspec.json.decode(payload, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Refused("upstream_failed", "The model's answer cannot be read.") from error


def _dict(of: Object, name: str) -> Object:
    value = of.get(name)
    return value if isinstance(value, dict) else {}


def _probability(told: Object) -> Object:
    others = told.get("top_logprobs") or ()
    return {**_token(told), **({"top_logprobs": list(map(_token, others))} if others else {})}


def _token(told: Object) -> Object:
    stated = {name: told.get(name) for name in ("token", "logprob", "bytes")}
    return {name: value for name, value in stated.items() if value is not None}


def _nanoseconds(milliseconds: object, otherwise: float) -> int:
    stated = isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool)
    return round(milliseconds * 1e6 if stated else otherwise * 1e9)  # type: ignore[operator]
