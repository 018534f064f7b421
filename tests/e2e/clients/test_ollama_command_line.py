"""`ollama` on the command line: no registry of packages has the program, so what it sends is sent
here, in the order and the form in which it does (v0.33). Its key stands in OLLAMA_HOST."""

from __future__ import annotations

import hashlib
import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.support.gateway import Gateway, ollama_port
from tests.support.tiny_model import tiny_model

pytestmark = [pytest.mark.engine, pytest.mark.slow]

AGENT = "ollama/0.33.0 (amd64 linux) Go/go1.26.0"
FEW = {"num_predict": 8}
"""As after `/set parameter num_predict 8`: random weights go on for long."""


class Failed(Exception):
    """What the program would print, and exit with 1."""


class CommandLine:
    """One method a command, each with the requests that it makes."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._key = key

    def version(self) -> str:
        return str(self._do("GET", "/api/version")["version"])

    def list(self) -> dict[str, dict[str, Any]]:
        self._heartbeat()
        listed = self._do("GET", "/api/tags")["models"]
        return {each["name"]: each for each in listed if each["digest"][:12]}

    def ps(self) -> dict[str, dict[str, Any]]:
        self._heartbeat()
        return {each["name"]: each for each in self._do("GET", "/api/ps")["models"]}

    def show(self, model: str) -> dict[str, Any]:
        self._heartbeat()
        return self._show(model)

    def run(self, model: str, prompt: str) -> str:
        """It pulls what is not there, loads it, and asks."""
        self._heartbeat()
        try:
            told = self._show(model)
        except Failed:
            self.pull(model)
            told = self._show(model)
        if "embedding" in told["capabilities"]:
            asked = {"model": model, "input": prompt, "options": None}
            return json.dumps(self._do("POST", "/api/embed", asked)["embeddings"][0])
        self._generate(model, "")
        self._do("GET", "/api/ps")
        return self._generate(model, prompt, options=FEW, context=[])[0]

    def chat(self, model: str, *said: str) -> list[str]:
        """Interactively: one line after the other."""
        self._heartbeat()
        self._show(model)
        self._generate(model, "")
        messages: list[dict[str, Any]] = []
        answers = []
        for line in said:
            messages.append({"role": "user", "content": line})
            asked = {"model": model, "messages": messages, "options": FEW}
            parts = list(self._stream("POST", "/api/chat", asked))
            assert parts[-1]["done"]
            answers.append("".join(part["message"]["content"] for part in parts))
            messages.append({"role": "assistant", "content": answers[-1]})
        return answers

    def stop(self, model: str) -> None:
        self._heartbeat()
        self._show(model)
        assert self._generate(model, "", keep_alive="0s")[1]["done_reason"] == "unload"

    def pull(self, model: str) -> list[str]:
        self._heartbeat()
        asked = {"model": "", "username": "", "password": "", "name": model}
        return [step["status"] for step in self._stream("POST", "/api/pull", asked)]

    def create(self, model: str, blob: bytes = b"", **modelfile: Any) -> list[str]:
        self._heartbeat()
        if blob:
            digest = f"sha256:{hashlib.sha256(blob).hexdigest()}"
            try:
                self._do("HEAD", f"/api/blobs/{digest}")
            except Failed:
                self._do("POST", f"/api/blobs/{digest}", blob)
            modelfile["files"] = {"tiny.gguf": digest}
        asked = {"model": model, **modelfile, "name": ""}
        return [step["status"] for step in self._stream("POST", "/api/create", asked)]

    def cp(self, source: str, destination: str) -> None:
        self._heartbeat()
        self._do("POST", "/api/copy", {"source": source, "destination": destination})

    def rm(self, model: str) -> None:
        self._heartbeat()
        self._show(model)
        self._generate(model, "", keep_alive="0s")
        self._do("DELETE", "/api/delete", {"model": "", "name": model})

    def push(self, model: str) -> None:
        self._heartbeat()
        asked = {"model": "", "username": "", "password": "", "name": model}
        list(self._stream("POST", "/api/push", asked))

    # What commands are made of ---------------------------------------------------------

    def _heartbeat(self) -> None:
        self._do("HEAD", "/")

    def _show(self, model: str) -> dict[str, Any]:
        asked = {
            "model": model, "system": "", "template": "", "verbose": False, "options": None,
            "name": "",
        }  # fmt: skip
        return self._do("POST", "/api/show", asked)

    def _generate(
        self, model: str, prompt: str, options: Any = None, **more: Any
    ) -> tuple[str, dict[str, Any]]:
        asked = {
            "model": model, "prompt": prompt, "suffix": "", "system": "", "template": "",
            "options": options, **more,
        }  # fmt: skip
        parts = list(self._stream("POST", "/api/generate", asked))
        assert parts[-1]["done"]
        return "".join(part["response"] for part in parts), parts[-1]

    def _do(self, method: str, path: str, body: Any = None) -> Any:
        status, data = self._ask(method, path, body, "application/json")
        if status >= 400:
            raise Failed(json.loads(data)["error"] if data else str(status))
        return json.loads(data) if data and path != "/" else None

    def _stream(self, method: str, path: str, body: Any) -> Iterator[dict[str, Any]]:
        for line in self._ask(method, path, body, "application/x-ndjson")[1].splitlines():
            told = json.loads(line)
            if "error" in told:
                raise Failed(told["error"])
            yield told

    def _ask(self, method: str, path: str, body: Any, accept: str) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json", "Accept": accept, "User-Agent": AGENT}
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)) as server:
            if isinstance(body, bytes):
                headers["Transfer-Encoding"] = "chunked"
                pieces = iter([body])
                server.request(method, self._at(path), pieces, headers, encode_chunked=True)
            else:
                data = None if body is None else json.dumps(body).encode()
                server.request(method, self._at(path), data, headers)
            answer = server.getresponse()
            return answer.status, answer.read()

    def _at(self, path: str) -> str:
        return f"/{self._key}{path}"


@pytest.fixture(scope="module")
def ollama(serving: Gateway) -> CommandLine:
    return CommandLine(ollama_port(serving), serving.key)


@pytest.fixture(scope="module")
def manager(serving: Gateway) -> CommandLine:
    return CommandLine(ollama_port(serving), serving.admin_key)


def test_it_lists_shows_runs_and_stops_a_model(ollama: CommandLine) -> None:
    assert ollama.version()
    assert ollama.list()["smollm2:latest"]["size"] > 0
    shown = ollama.show("smollm2")
    assert shown["details"]["family"] == shown["model_info"]["general.architecture"] == "llama"

    assert ollama.run("smollm2", "Hello")
    running = ollama.ps()["smollm2:latest"]
    assert running["size"] >= running["size_vram"]
    assert running["context_length"] > 0
    assert len(json.loads(ollama.run("embedder", "Hello"))) == 64

    ollama.stop("smollm2")


def test_it_talks_line_by_line(ollama: CommandLine) -> None:
    assert len(ollama.chat("smollm2", "Hello", "And then?")) == 2


def test_it_pulls_what_it_is_to_run_makes_copies_and_removes(manager: CommandLine) -> None:
    assert manager.run("tiny:1b", "Hello")
    assert manager.pull("tiny:1b")[-1] == "success"

    assert manager.create("brief", **{"from": "tiny:1b", "system": "Be brief."})[-1] == "success"
    assert manager.show("brief")["system"] == "Be brief."
    manager.cp("brief", "twin")
    assert manager.run("twin", "Hello")

    for model in ("twin", "brief", "tiny:1b"):
        manager.rm(model)
    assert not {"twin:latest", "brief:latest", "tiny:1b"} & set(manager.list())


def test_it_makes_a_model_of_a_file(
    manager: CommandLine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tiny_model(tmp_path_factory.mktemp("modelfile"), "handed", seed=11)
    assert manager.create("handed", file.read_bytes())[-1] == "success"
    assert manager.run("handed", "Hello")
    manager.rm("handed")


def test_what_it_may_not_do_is_an_error(ollama: CommandLine, manager: CommandLine) -> None:
    for asked, words in (
        (lambda: ollama.rm("beta"), "may not manage"),
        (lambda: ollama.run("nobody:1b", "Hello"), "may not manage"),
        (lambda: manager.run("nobody:1b", "Hello"), "pull model"),
        (lambda: ollama.stop("nobody"), "not found"),
        (lambda: ollama.push("beta"), "would publish"),
        (lambda: CommandLine(ollama._port, "ck_wrong").list(), "404"),
    ):
        with pytest.raises(Failed, match=words):
            asked()
