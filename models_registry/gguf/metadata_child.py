"""What many models' files say of themselves, one line of JSON for each: a program of its own.

    python -I -S metadata_child.py

takes one JSON line a model on stdin, `{"path": …, "mmproj": …, "draft": …, "stamp": …}`, and an
empty line after the last; then it answers each with one line in the same order (`answer` below has
its forms). It begins with the line `ready`. One process reads many models, because to start one
takes longer than to read a header; whoever starts it waits a bounded time for each line, and goes
on in a new process when one does not come. It ends when its stdin does.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import resource
import sys
import threading
import time
from itertools import chain
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # python -I finds nothing beside it
    sys.path.append(os.fspath(Path(__file__).parents[2]))

from models_registry.gguf.contents import Contents, NotReadable, contents_at
from models_registry.model_paths import FilesState, files_state
from models_registry.naming import shard_names

MEMORY_LIMIT = 512 << 20
CPU_SECONDS = 5
"""For one model."""
MOST_KEPT_BACK, KEPT_BACK_SECONDS = 100, 0.1
"""Answers that nothing has changed."""
READING = 1
"""Raised when what is read changes, so that every file is read anew."""

TEMPLATE = "tokenizer.chat_template"
KEPT = (
    "general.architecture", "general.name", "general.file_type", "general.license",
    "tokenizer.ggml.model", TEMPLATE,
)  # fmt: skip
KEPT_OF_ARCHITECTURE = (
    "context_length", "block_count", "embedding_length", "vocab_size", "pooling_type",
)  # fmt: skip
ENCODERS = {"clip.has_vision_encoder": "image", "clip.has_audio_encoder": "audio"}


SAME: dict[str, Any] = {"same": True}
SAME_LINE = json.dumps(SAME).encode()


def stamp_of(state: FilesState) -> str:
    """Another one for every state of the files."""
    told = repr((READING, state.stamp))
    return hashlib.sha256(told.encode(errors="surrogatepass")).hexdigest()[:32]


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """`{"missing": why}`, `{"same": true}` when the files are as at `stamp`, or `{"stamp": …}` with
    `said` and `error`. `lasting` is false for an error that may go without the files changing."""
    state = files_state(asked["path"], asked["mmproj"], asked["draft"])
    if state.problem:
        return {"missing": state.problem}
    stamp = stamp_of(state)
    if stamp == asked["stamp"]:
        return SAME
    _limit_time()
    found: dict[str, Any] = {"stamp": stamp, "said": {}, "error": "", "lasting": True}
    try:
        found["said"] = said_by_model(Path(asked["path"]))
        if asked["mmproj"]:
            found["said"]["encoders"] = encoders(Path(asked["mmproj"]))
    except OSError as failure:
        found["error"] = f"{failure.filename}: {failure.strerror}"
        found["lasting"] = False
    except MemoryError:
        found["error"] = "it takes more memory than any header"
    except NotReadable as failure:
        found["error"] = str(failure)
    return found


def said_by_model(path: Path) -> dict[str, Any]:
    """The values that are shown, and sums over all shards. Raises NotReadable and OSError."""
    shards = [_contents(path.with_name(name)) for name in shard_names(path.name)]
    first = shards[0]
    architecture = first.values.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise NotReadable("its header names no architecture")
    own = {key: first.values.get(f"{architecture}.{key}") for key in KEPT_OF_ARCHITECTURE}
    tensors = chain.from_iterable(shard.tensors for shard in shards)
    parameters = weights = 0
    for _, _, shape, _, size in tensors:
        parameters += math.prod(shape)
        weights += size
    return {
        "values": {key: first.values[key] for key in KEPT if key in first.values},
        "own": {key: value for key, value in own.items() if isinstance(value, int)},
        "tokens": first.lengths.get("tokenizer.ggml.tokens", 0),
        "parameters": parameters,
        "weights": weights,
    }


def encoders(path: Path) -> list[str]:
    """What a projector lets a model take. Raises NotReadable and OSError."""
    values = _contents(path).values
    return [what for key, what in ENCODERS.items() if values.get(key) is True]


def _contents(path: Path) -> Contents:
    try:
        return contents_at(os.fspath(path), whole=(TEMPLATE,))
    except NotReadable as failure:
        raise NotReadable(f"the file {path.name}: {failure}") from failure


# The program ----------------------------------------------------------------------------------


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(3)  # whoever started us holds it


def _limit_time() -> None:
    """The kernel ends the process when this model takes too long."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    soft = math.ceil(used.ru_utime + used.ru_stime) + CPU_SECONDS
    if most == resource.RLIM_INFINITY or soft < most:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, most))


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = _Answers()
    answers.say(b"ready")
    asks = []
    while (line := sys.stdin.buffer.readline()) != b"\n":
        if not line:
            os._exit(3)
        asks.append(line)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    threading.Thread(target=answers.flush_for_ever, daemon=True).start()
    for ask in asks:
        found = answer(json.loads(ask))
        if found is SAME:
            answers.keep(SAME_LINE)
        else:
            answers.say(json.dumps(found).encode())
    answers.flush()
    os._exit(0)  # the thread at stdin would hold an ordinary exit


class _Answers:
    """Whoever waits must know which model is next. A look at one that is as it was takes less than
    a line on its way, so these go together, and a file that hangs holds them no longer than a
    moment."""

    def __init__(self) -> None:
        self._kept: list[bytes] = []
        self._lock = threading.Lock()

    def keep(self, line: bytes) -> None:
        with self._lock:
            self._kept.append(line)
        if len(self._kept) >= MOST_KEPT_BACK:
            self.flush()

    def say(self, line: bytes) -> None:
        with self._lock:
            self._kept.append(line)
        self.flush()

    def flush(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, []
            if kept:
                sys.stdout.buffer.write(b"\n".join(kept) + b"\n")
                sys.stdout.buffer.flush()

    def flush_for_ever(self) -> None:
        while True:
            time.sleep(KEPT_BACK_SECONDS)
            self.flush()


if __name__ == "__main__":
    main()
