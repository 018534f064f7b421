"""Embeddings in Ollama's words. Numbers are passed on as the child writes them, but where fewer
dimensions are asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from proxy.ollama.telling import MOST_KEPT, Object, Took
from scheduler.protocol import Refused


class _Vector(msgspec.Struct):
    embedding: msgspec.Raw
    index: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0


class _Answer(msgspec.Struct):
    data: list[_Vector]
    usage: _Usage = msgspec.field(default_factory=_Usage)


@dataclass(slots=True)
class Vectors:
    """`alone`: in the older form, which has one vector and no figures."""

    model: str
    alone: bool = False
    dimensions: int | None = None
    streams: bool = False
    failed: str = ""
    _answer: _Answer | None = None

    def heard(self, part: bytes, *, is_stream: bool) -> bytes:
        """The whole answer. Raises Refused."""
        if len(part) > 4 * MOST_KEPT:
            raise Refused("upstream_failed", "There are too many vectors for one answer.")
        try:
            self._answer = msgspec.json.decode(part, type=_Answer)
        except msgspec.MsgspecError as error:
            raise Refused("upstream_failed", "The model's vectors cannot be read.") from error
        return b""

    def end(self, took: Took) -> list[Object]:
        if self._answer is None:
            raise Refused("model_died", f"The answer of '{self.model}' broke off.")
        vectors = [
            self._shortened(each.embedding)
            for each in sorted(self._answer.data, key=lambda each: each.index)
        ]
        if self.alone:
            return [{"embedding": vectors[0] if vectors else []}]
        told: Object = {"model": self.model, "embeddings": vectors}
        durations = took.told({})
        told |= {name: durations[name] for name in ("total_duration", "load_duration")}
        return [told | {"prompt_eval_count": self._answer.usage.prompt_tokens}]

    def _shortened(self, vector: msgspec.Raw) -> msgspec.Raw | list[float]:
        """To the first dimensions, at length 1 again."""
        if self.dimensions is None:
            return vector
        numbers = msgspec.json.decode(vector, type=list[float])[: self.dimensions]
        length = math.hypot(*numbers)
        return [number / length for number in numbers] if length else numbers
