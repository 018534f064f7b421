"""What models' headers say of them, read for thousands of files in few bounded processes."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Any

from models_registry.gguf.file_types import NAMES
from models_registry.gguf.metadata_child import SAME_LINE, TEMPLATE, stamp_of
from models_registry.model_paths import files_state
from models_registry.naming import file_stem, quantisation

logger = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("metadata_child.py")
READ_SECONDS = 10.0
"""For one model; and for a process to start."""
BATCH = 10_000
"""Models that one process is asked for, at most."""
LANES, WORTH_A_LANE = 2, 1000
"""Processes at once, and for how many models another one is started."""
MOST_TIMEOUTS = 3
"""So many models that do not answer end a run: a file system hangs."""
LONGEST_LINE = 1 << 20
_REAP_SECONDS = 1.0
_KILLED = (-signal.SIGKILL, -signal.SIGTERM)


class ReaderBroken(Exception):
    """The program that reads headers does not start, or files hang: the rest is not known."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A model file's row, and the stamp at which its header was last read, or nothing."""

    id: int
    path: str
    mmproj: str = ""
    draft: str = ""
    stamp: str = ""


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the header says. Figures that it does not say are None."""

    name: str = ""
    architecture: str = ""
    parameters: int | None = None
    weights: int | None = None
    quantisation: str = ""
    context_length: int | None = None
    layers: int | None = None
    embedding_length: int | None = None
    vocabulary: int | None = None
    tokenizer: str = ""
    input_modalities: list[str] = field(default_factory=list)
    output_modalities: list[str] = field(default_factory=list)
    chat_template: str = ""
    licence: str = ""


NOTHING = Metadata()


@dataclass(frozen=True, slots=True)
class Answer:
    """Of one model. `stamp` is empty when its files are missing or as they were, and when what went
    wrong may go by itself: it is then asked for again. `read`: its header was read, or tried."""

    ask: Ask
    read: bool
    stamp: str = ""
    error: str = ""
    metadata: Metadata = NOTHING


def read_many(asks: Sequence[Ask], seconds: float = READ_SECONDS) -> Iterator[Answer]:
    """One answer for each, in any order. A model that takes too much time or memory costs its own
    answer and a new process. Raises ReaderBroken after all that could be answered."""
    lanes = min(LANES, 1 + len(asks) // WORTH_A_LANE)
    answers: SimpleQueue[Answer | None] = SimpleQueue()
    faults: list[BaseException] = []
    stop = threading.Event()

    def drive(lane: Sequence[Ask]) -> None:
        try:
            for answer in _in_order(lane, seconds):
                answers.put(answer)
                if stop.is_set():
                    return
        except BaseException as fault:  # told to who reads the answers
            faults.append(fault)
        finally:
            answers.put(None)

    for number in range(lanes):
        # A daemon: whoever ends this process does not wait for a file system
        threading.Thread(target=drive, args=(asks[number::lanes],), daemon=True).start()
    try:
        while lanes:
            answer = answers.get()
            if answer is None:
                lanes -= 1
            else:
                yield answer
    finally:
        stop.set()
    if faults:
        raise faults[0]


def _in_order(asks: Sequence[Ask], seconds: float) -> Iterator[Answer]:
    """By one process after the other."""
    rest = list(asks)
    timeouts = 0
    while rest:
        batch = rest[:BATCH]
        answered = 0
        with _Child(seconds) as child:
            try:
                child.ask(batch)
                for ask in batch:
                    yield _told(ask, child.line())
                    answered += 1
            except (_Ended, TimeoutError) as failure:
                ask = batch[answered]
                timeouts += isinstance(failure, TimeoutError)
                lasting = isinstance(failure, _Ended) and failure.by_itself
                yield _not_read(ask, str(failure), lasting=lasting)
                answered += 1
        rest = rest[answered:]
        if timeouts >= MOST_TIMEOUTS and rest:
            raise ReaderBroken(
                f"{timeouts} files did not answer within {seconds:g} s, the last one {ask.path}: "
                f"{len(rest)} more are left for the next time"
            )


def _told(ask: Ask, line: bytes) -> Answer:
    if line == SAME_LINE:
        return Answer(ask, read=False)
    told = json.loads(line)
    if "stamp" not in told:
        return Answer(ask, read=False, error=told.get("missing", ""))
    stamp = told["stamp"] if told["lasting"] else ""
    said = told["said"]
    metadata = metadata_of(said, Path(ask.path).name) if said else NOTHING
    return Answer(ask, read=True, stamp=stamp, error=told["error"], metadata=metadata)


def _not_read(ask: Ask, why: str, *, lasting: bool) -> Answer:
    stamp = stamp_of(files_state(ask.path, ask.mmproj, ask.draft)) if lasting else ""
    return Answer(ask, read=True, stamp=stamp, error=f"reading its header {why}")


def metadata_of(said: dict[str, Any], filename: str) -> Metadata:
    """Of what the program answered. The file's name tells the quantisation where the header does
    not."""
    values, own = said["values"], said["own"]
    kind = NAMES.get(values.get("general.file_type"), "")
    return Metadata(
        name=_text(values, "general.name", 250),
        architecture=_text(values, "general.architecture", 64),
        parameters=said["parameters"] or None,
        weights=said["weights"] or None,
        quantisation=kind or quantisation(file_stem(filename))[:32],
        context_length=_count(own, "context_length"),
        layers=_count(own, "block_count"),
        embedding_length=_count(own, "embedding_length"),
        vocabulary=said["tokens"] or _count(own, "vocab_size"),
        tokenizer=_text(values, "tokenizer.ggml.model", 32),
        input_modalities=["text", *said.get("encoders", [])],
        output_modalities=[_output(values, own)],
        chat_template=_text(values, TEMPLATE, None),
        licence=_text(values, "general.license", 250),
    )


_RANK = 4
_EMBEDDERS = {
    "bert", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "modern-bert",
    "neo-bert", "nomic-bert", "nomic-bert-moe", "t5encoder",
}  # fmt: skip


def _output(values: dict[str, Any], own: dict[str, Any]) -> str:
    """A header that tells how to pool is one of a model made for it."""
    if own.get("pooling_type") == _RANK:
        return "scores"
    embeds = own.get("pooling_type", 0) > 0 or values["general.architecture"] in _EMBEDDERS
    return "embeddings" if embeds else "text"


def _text(values: dict[str, Any], key: str, longest: int | None) -> str:
    """Without NUL, which no database takes."""
    found = values.get(key)
    return found.replace("\0", "")[:longest] if isinstance(found, str) else ""


def _count(own: dict[str, Any], key: str) -> int | None:
    found = own.get(key)
    return found if isinstance(found, int) and 0 <= found < 1 << 31 else None


class _Ended(Exception):
    """The process has gone; the text is how. `by_itself`: of the file it read, as far as we know;
    not because somebody, or the kernel for want of memory, killed it."""

    def __init__(self, how: str, *, by_itself: bool = True) -> None:
        super().__init__(how)
        self.by_itself = by_itself


class _Child:
    """One process of the program. Its block is its life."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._heard = b""

    def __enter__(self) -> _Child:
        self._process = subprocess.Popen(
            (sys.executable, "-I", "-S", os.fspath(PROGRAM)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            if self.line(READ_SECONDS) != b"ready":
                raise _Ended("said something else")
        except (_Ended, TimeoutError) as failure:
            self._end()
            raise ReaderBroken(
                f"the program that reads headers does not start: it {failure}"
            ) from failure
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(self, asks: Sequence[Ask]) -> None:
        """Raises _Ended."""
        assert self._process.stdin is not None
        lines = (
            {"path": ask.path, "mmproj": ask.mmproj, "draft": ask.draft, "stamp": ask.stamp}
            for ask in asks
        )
        try:
            text = "".join(f"{json.dumps(each)}\n" for each in lines)
            self._process.stdin.write(f"{text}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError as failure:
            raise self._ended() from failure

    def line(self, seconds: float | None = None) -> bytes:
        """The next one. Raises _Ended and TimeoutError."""
        assert self._process.stdout is not None
        end, pipe = monotonic() + (seconds or self._seconds), self._process.stdout.fileno()
        while b"\n" not in self._heard:
            ready, _, _ = select.select([pipe], [], [], max(0.0, end - monotonic()))
            if not ready:
                raise TimeoutError(f"took longer than {self._seconds:g} s")
            part = os.read(pipe, 1 << 16)
            if not part:
                raise self._ended()
            self._heard += part
            if len(self._heard) > LONGEST_LINE and b"\n" not in self._heard:
                raise _Ended("came to no end")
        line, _, self._heard = self._heard.partition(b"\n")
        return line

    def _ended(self) -> _Ended:
        try:
            code = self._process.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            return _Ended("stopped answering", by_itself=False)
        if code == -signal.SIGXCPU:
            return _Ended("took more processor time than any header")
        return _Ended(f"ended with {code}", by_itself=code not in _KILLED)

    def _end(self) -> None:
        process = self._process
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        try:
            process.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:  # the kernel waits for a file system; not we
            logger.warning("the reader of headers %d hangs in a file system", process.pid)
