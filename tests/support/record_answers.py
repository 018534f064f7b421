"""Asks the real engine a thousand things and keeps its answers, byte by byte as they came.

    python -m tests.support.record_answers

writes tests/support/captured/answers.xz, from which tests replay them (captured_answers.py). It
takes a minute; do it again when the engine is another one.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from models_registry.engine_path import llama_server
from tests.support.captured_answers import ANSWERS, Captured, write
from tests.support.polling import eventually
from tests.support.tiny_model import tiny_model

SLOTS = 8
WORDS = 'one two three naïve Übergröße 日本語 русский עברית 🦙 \u2028 \\ " <b> \t end'
ALPHABET = 'root ::= ("a" | "é" | " 日本" | "🦙" | "\\u2028" | "\\"" | "\\\\" | "\\n" | " ж")+'
"""What random weights seldom say: characters of two to four bytes, and those that JSON escapes."""
Question = tuple[str, dict[str, Any] | bytes]


def questions() -> Iterator[Question]:
    """A path and a body each, always the same ones."""
    chance = random.Random(7)
    for number in range(380):
        yield "/v1/chat/completions", _chat(chance, number, stream=True)
    for number in range(120):
        yield "/v1/chat/completions", _chat(chance, number, stream=False)
    for number in range(180):
        path = "/completion" if number % 3 == 0 else "/v1/completions"
        body = _sampling(chance, number) | {"prompt": _text(chance)}
        yield path, body | {"stream": number % 4 != 0, "max_tokens": 1 + number % 24}
    for number in range(80):
        body = _sampling(chance, number) | {"stream": number % 3 != 0, "max_output_tokens": 12}
        yield "/v1/responses", body | {"input": _text(chance)}
    for number in range(80):
        body = _sampling(chance, number) | {"stream": number % 3 != 0, "max_tokens": 12}
        yield "/v1/messages", body | {"messages": [{"role": "user", "content": _text(chance)}]}
    for number in range(60):
        texts = [_text(chance) for _ in range(1 + number % 3)]
        yield "/v1/embeddings", {"model": "vectors", "input": texts}
    for _ in range(40):
        yield "/tokenize", {"model": "tiny", "content": _text(chance), "with_pieces": True}
    yield from _refused(chance, 60)


def _chat(chance: random.Random, number: int, *, stream: bool) -> dict[str, Any]:
    body = _sampling(chance, number) | {
        "messages": [{"role": "user", "content": _text(chance)}],
        "max_tokens": 1 + number % 32,
        "stream": stream,
    }
    if number % 5 == 0:
        body |= {"logprobs": True, "top_logprobs": 2, "max_tokens": 4}
    if number % 7 == 0 and stream:
        body |= {"stream_options": {"include_usage": True}}
    if number % 11 == 0 and stream:
        body |= {"return_progress": True, "timings_per_token": True}
    if number % 13 == 0:
        body |= {"n": 2}
    return body


def _sampling(chance: random.Random, number: int) -> dict[str, Any]:
    body: dict[str, Any] = {"model": "tiny", "seed": number, "temperature": 1.0}
    body["ignore_eos"] = chance.random() < 0.8
    if chance.random() < 0.5:
        body["grammar"] = ALPHABET
    return body


def _text(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS.split(" "), k=1 + chance.randrange(30)))


def _refused(chance: random.Random, count: int) -> Iterator[Question]:
    """What the engine itself refuses; each of them passes the gateway."""
    kinds: list[Question] = [
        ("/v1/chat/completions", {"model": "tiny", "messages": "no list"}),
        ("/v1/chat/completions", {"model": "tiny", "messages": [{"role": "user"}], "stream": True}),
        ("/v1/chat/completions", {"model": "tiny", "messages": [], "grammar": "no ::="}),
        ("/v1/completions", {"model": "tiny", "prompt": {"odd": True}}),
        ("/v1/completions", {"model": "tiny"}),
        ("/v1/embeddings", {"model": "vectors", "input": ""}),
        ("/v1/embeddings", {"model": "tiny", "input": "x"}),
        ("/v1/rerank", {"model": "tiny", "query": "x", "documents": ["y"]}),
        ("/v1/messages", {"model": "tiny"}),
        ("/v1/responses", {"model": "tiny"}),
    ]
    for number in range(count):
        path, body = kinds[number % len(kinds)]
        assert isinstance(body, dict)
        yield path, body | {"user": _text(chance)}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rec-") as name:
        folder = Path(name)
        # The settings are read to find the engine: on a state folder of nobody's
        os.environ |= {"CORRAL_VAR": name, "DJANGO_SETTINGS_MODULE": "routerproj.settings"}
        model = tiny_model(folder, "tiny", seed=5)
        with (
            _child(model, folder / "t.sock", "tiny") as tiny,
            _child(model, folder / "v.sock", "vectors", "--embeddings", "--pooling", "mean") as v,
            ThreadPoolExecutor(SLOTS) as pool,
        ):
            sockets = {"tiny": tiny, "vectors": v}
            captured = list(pool.map(lambda q: _captured(sockets, *q), list(questions())))
    write(captured)
    streams = sum(each.is_stream for each in captured)
    print(f"{len(captured)} answers, {streams} streams: {ANSWERS.stat().st_size} bytes")


@contextmanager
def _child(model: Path, address: Path, alias: str, *options: str) -> Iterator[Path]:
    command = [str(llama_server()), "--model", str(model), "--alias", alias, *options]
    command += ["--host", str(address), "--port", "1", "-t", "1", "--offline", "--no-ui"]
    command += ["--parallel", str(SLOTS), "-c", str(SLOTS * 1024)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet) as process:
        try:
            eventually(lambda: b" 200 " in _asked(address, b"GET /health"), f"{alias} is there", 60)
            yield address
        finally:
            process.kill()


def _captured(sockets: dict[str, Path], path: str, asked: dict[str, Any]) -> Captured:
    body = json.dumps(asked, ensure_ascii=False).encode()
    return Captured(path, body, _asked(sockets[asked["model"]], f"POST {path}".encode(), body))


def _asked(address: Path, line: bytes, body: bytes = b"") -> bytes:
    """Everything that comes until the child closes; nothing if nobody is there yet."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        try:
            connection.connect(str(address))
        except OSError:
            return b""
        head = b"%b HTTP/1.1\r\nHost: l\r\nConnection: close\r\nContent-Type: application/json\r\n"
        connection.sendall(head % line + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


if __name__ == "__main__":
    main()
