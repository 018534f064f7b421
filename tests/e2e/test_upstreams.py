"""A preset whose engine is a remote server: here llama-server on a port, with a key of its own."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from models_registry.engine_path import llama_server
from tests.support.asking import Client, whole
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.managing import Manager
from tests.support.polling import eventually
from tests.support.prepared import models_folder

pytestmark = [pytest.mark.engine, pytest.mark.slow]

KEY = "sk-that-only-the-remote-knows"
SLOTS = 2


@dataclass
class RemoteServer:
    """It can be ended, and started again where it was."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def client(self) -> Client:
        return Client(self.port, KEY)

    def start(self) -> None:
        model = models_folder({"slow": SLOW}) / "slow.gguf"
        command = [
            *(llama_server(), "--model", model, "--alias", "theirs", "--api-key", KEY),
            *("--host", "127.0.0.1", "--port", str(self.port), "--parallel", str(SLOTS)),
            *("--offline", "--threads", "1", "--ctx-size", "4096"),
        ]
        environment = {"PATH": os.environ["PATH"], "LLAMA_CACHE": str(self.folder)}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        eventually(self._answers, "the remote server answers", 60)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def busy(self) -> int:
        return sum(slot["is_processing"] for slot in self.client.request("GET", "/slots").json)

    def _answers(self) -> bool:
        try:
            return self.client.request("GET", "/health", timeout=5).status == 200
        except OSError:
            return False


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteServer]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = RemoteServer(port, tmp_path_factory.mktemp("remote"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def running(remote: RemoteServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("upstreams")
    with gateway(folder, args=["--models-max", "1"], models={"alpha": {"seed": 1}}) as started:
        made = Manager(started)(
            "POST",
            "/presets",
            {
                "name": "far",
                "engine": "upstream",
                "upstream_url": f"http://127.0.0.1:{remote.port}/v1",
                "upstream_model": "theirs",
                "upstream_key": KEY,
                "parallel": SLOTS,
            },
        )
        assert made.status == 201, made.json
        eventually(lambda: "far" in started.models(), "the preset is listed")
        yield started


def status_of(running: Gateway, name: str) -> dict[str, Any]:
    listed = running.client.request("GET", "/models").json["data"]
    return next(model["status"] for model in listed if model["id"] == name)


def test_it_answers_without_being_loaded_and_takes_no_models_room(running: Gateway) -> None:
    assert status_of(running, "far")["value"] == "loaded"
    assert whole(running.client.chat("alpha"))
    answer = running.client.chat("far")

    assert whole(answer)
    assert answer.json["model"] == "theirs"
    assert status_of(running, "alpha")["value"] == "loaded"
    assert [child.preset for child in running.children()] == ["alpha"]


def test_its_streams_are_whole(running: Gateway) -> None:
    with running.client.stream("far", max_tokens=8) as stream:
        ending = stream.to_end()

    assert ending.finished
    assert len(ending.events) > 8


def test_more_requests_than_its_slots_wait_here(running: Gateway, remote: RemoteServer) -> None:
    with (
        ThreadPoolExecutor(1) as other,
        running.client.stream("far", max_tokens=2000) as one,
    ):
        assert one.next_event()
        with running.client.stream("far", max_tokens=2000) as two:
            assert two.next_event()
            third = other.submit(running.client.chat, "far")
            [entry] = eventually(lambda: running.snapshot()["queue"], "the third one waits")
            assert (entry["preset"], entry["holdup"]) == ("far", "slot")
            assert running.snapshot()["remotes"][0]["leases"] == SLOTS
        assert whole(third.result(60))
    eventually(lambda: not remote.busy(), "every slot is free")


def test_a_client_that_leaves_frees_its_slot_there(running: Gateway, remote: RemoteServer) -> None:
    with running.client.stream("far", max_tokens=2000) as stream:
        assert stream.next_event()
        assert remote.busy() == 1
    eventually(lambda: not remote.busy(), "the slot is free")
    eventually(lambda: not running.snapshot()["remotes"][0]["leases"], "the lease has ended")


def test_what_is_loaded_and_unloaded_is_not_it(running: Gateway) -> None:
    for path, key in (("/models/load", None), ("/models/unload", running.admin_key)):
        answer = running.client.request("POST", path, {"model": "far"}, key=key)

        assert (answer.status, answer.code) == (400, "invalid_request")
        assert "needs no loading" in answer.message


def test_its_props_are_shown_and_not_what_others_do_there(running: Gateway) -> None:
    props = running.client.request("GET", "/props?model=far")
    slots = running.client.request("GET", "/slots?model=far")

    assert props.json["total_slots"] == SLOTS
    assert (slots.status, slots.code) == (501, "not_supported")


def test_what_the_management_api_says_of_it_holds_no_key(running: Gateway) -> None:
    manager = Manager(running)
    told = [
        manager("GET", f"/presets/far{path}") for path in ("", "/command-line", "/history", "/fit")
    ]

    assert {answer.status for answer in told} <= {200, 404}
    assert told[0].status == 200
    assert all(KEY.encode() not in answer.body for answer in told)


def test_its_key_stands_in_one_file_that_only_its_owner_reads(running: Gateway) -> None:
    running.client.chat("far")
    holders = [
        file
        for file in running.var.rglob("*")
        if file.is_file() and KEY.encode() in file.read_bytes()
    ]

    assert [file.parent.name for file in holders] == ["secrets"]
    assert holders[0].stat().st_mode & 0o777 == 0o600
    assert not any(KEY in line for line in running.output)


def test_one_that_dies_is_left_alone_and_found_again(
    running: Gateway, remote: RemoteServer
) -> None:
    remote.kill()
    answers = [running.client.chat("far") for _ in range(4)]
    assert {(answer.status, answer.code) for answer in answers} == {(503, "upstream_unavailable")}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
    status = status_of(running, "far")
    assert (status["value"], status["failed"]) == ("unloaded", True)
    assert "nobody listens there" in status["reason"]

    remote.start()
    eventually(lambda: whole(running.client.chat("far")), "it is asked again", 60)
    assert status_of(running, "far")["value"] == "loaded"
    assert "failed" not in status_of(running, "far")
