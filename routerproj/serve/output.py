"""What `serve` prints: its own lines, and those of its processes with their names before them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TextIO

from scheduler.runtime.line_splitter import LineSplitter

LONGEST_LINE = 1 << 16
NAME_WIDTH = 9


class Output:
    """Lines come whole, however the processes write. A reader that went away is no reason to stop
    serving: what cannot be printed is dropped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, text: str = "") -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text + "\n")
            self._stream.flush()

    def of(self, name: str) -> ProcessOutput:
        return ProcessOutput(self, name)


class ProcessOutput:
    def __init__(self, output: Output, name: str) -> None:
        self._output = output
        self._name = name.ljust(NAME_WIDTH)
        self._splitter = LineSplitter(LONGEST_LINE)

    def feed(self, data: bytes) -> None:
        for line in self._splitter.feed(data):
            self._print(line)

    def end(self) -> None:
        rest = self._splitter.end()
        if rest:
            self._print(rest)

    def _print(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        self._output.say(f"{self._name} | {text}")


def box(lines: Sequence[str]) -> str:
    width = max(len(line) for line in lines)
    edge = "+" + "-" * (width + 2) + "+"
    return "\n".join([edge, *(f"| {line.ljust(width)} |" for line in lines), edge])


def curl_line(url: str, model: str, key: str | None) -> str:
    """A question that streams its answer. `key` is None where none is asked for."""
    who = "" if key is None else f' -H "Authorization: Bearer {key}"'
    return (
        f"curl -sN {url}/v1/chat/completions{who} -H 'Content-Type: application/json'"
        f' -d \'{{"model": "{model}", "stream": true, "max_tokens": 64,'
        ' "messages": [{"role": "user", "content": "Why is the sky blue?"}]}\''
    )
