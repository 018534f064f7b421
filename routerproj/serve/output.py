"""What `serve` prints: its own lines, and those of its processes with their names before them.

For a collector (`CORRAL_LOG_FORMAT=json`) each of them is a JSON object that says which process it
is of. What a process has not said by its log (a library that prints, an interpreter that ends) is
made harmless here: no secret, and nothing that a terminal obeys.
"""

from __future__ import annotations

import json
import os
import select
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

from models_registry.log_redaction import Redaction, harmless_text
from scheduler.runtime.line_splitter import LineSplitter

LONGEST_LINE = 1 << 16
NAME_WIDTH = 9
MOST_WAITING = 4 << 20
"""Characters of the processes' lines that wait for a reader; `serve`'s own have as much again."""

LAST_WORDS_SECONDS = 2.0
"""How long a reader that does not read holds up the end."""


@dataclass(slots=True)
class _Waiting:
    """Lines with their place in the whole; the oldest go when there are too many."""

    what: str
    lines: deque[tuple[int, str]] = field(default_factory=deque)
    characters: int = 0
    dropped: int = 0

    def put(self, place: int, text: str) -> None:
        self.lines.append((place, text))
        self.characters += len(text)
        while self.characters > MOST_WAITING and len(self.lines) > 1:
            self.characters -= len(self.lines.popleft()[1])
            self.dropped += 1

    def next_place(self) -> float:
        return self.lines[0][0] if self.lines else float("inf")

    def take(self) -> str:
        _, text = self.lines.popleft()
        self.characters -= len(text)
        if self.dropped:
            text = f"({self.dropped} {self.what} were dropped here: nobody read them)\n{text}"
            self.dropped = 0
        return text


class Output:
    """Lines come whole, however the processes write. Saying something never waits: a thread prints.

    A reader that stops reading (a terminal at Ctrl-S, a pipe nobody empties) holds up nothing: the
    oldest lines are dropped then, and counted where they are missing. One that went away is no
    reason to stop serving either: what cannot be printed is dropped.
    """

    def __init__(
        self, stream: TextIO, *, as_json: bool = False, redaction: Redaction | None = None
    ) -> None:
        """`redaction` is for the processes' lines: `serve` itself shows a first key, once."""
        self._write = _writer(stream)
        self._as_json = as_json
        self._redaction = redaction or Redaction()
        self._own = _Waiting("lines of serve")
        self._of_processes = _Waiting("lines of the processes")
        self._places = 0
        self._change = threading.Condition()
        self._printing = False
        # A daemon: a write that waits for ever must not keep the process.
        self._thread = threading.Thread(target=self._print, name="output", daemon=True)
        self._thread.start()

    def say(self, text: str = "") -> None:
        self._put(self._own, _as_object("serve", text) if self._as_json else text)

    def say_of_process(self, name: str, text: str) -> None:
        text = harmless_text(self._redaction(text))
        self._put(
            self._of_processes,
            _as_object(name, text) if self._as_json else f"{name.ljust(NAME_WIDTH)} | {text}",
        )

    def of(self, name: str) -> ProcessOutput:
        return ProcessOutput(self, name)

    def flush(self, seconds: float = LAST_WORDS_SECONDS) -> bool:
        """Waits until all is printed; False when that took longer than `seconds`."""
        with self._change:
            return self._change.wait_for(self._all_is_printed, seconds)

    def _put(self, queue: _Waiting, text: str) -> None:
        with self._change:
            queue.put(self._places, text)
            self._places += 1
            self._change.notify_all()

    def _all_is_printed(self) -> bool:
        return not (self._own.lines or self._of_processes.lines or self._printing)

    def _print(self) -> None:
        while True:
            with self._change:
                self._printing = False
                self._change.notify_all()
                self._change.wait_for(lambda: self._own.lines or self._of_processes.lines)
                self._printing = True
                text = min(self._own, self._of_processes, key=_Waiting.next_place).take()
            self._write(text + "\n")


class _Descriptor:
    """Writes past Python's buffer: its lock, held by a write that waits, would stop the exit."""

    def __init__(self, descriptor: int, encoding: str) -> None:
        self._descriptor = descriptor
        self._encoding = encoding
        self._gone = False

    def __call__(self, text: str) -> None:
        data = memoryview(text.encode(self._encoding, "replace"))
        while data and not self._gone:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # whoever shares the terminal may have set it so
                select.select([], [self._descriptor], [], 1.0)
            except OSError:
                self._gone = True


class _Stream:
    """For what has no descriptor."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _writer(stream: TextIO) -> _Descriptor | _Stream:
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return _Stream(stream)
    stream.flush()
    return _Descriptor(descriptor, stream.encoding or "utf-8")


class ProcessOutput:
    def __init__(self, output: Output, name: str) -> None:
        self._output = output
        self._name = name
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
        self._output.say_of_process(self._name, text)


def _as_object(process: str, text: str) -> str:
    """A line of a log in JSON stays what it is; any other becomes the `event` of one."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    fields = said if isinstance(said, dict) else {"event": text}
    return json.dumps({"process": process, **fields})


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
