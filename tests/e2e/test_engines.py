"""Other engines than llama-server through a whole gateway: the same binary run by a command line of
one's own, on a socket and on a port, and llama-cpp-python's server."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from models_registry.engine_path import llama_server
from tests.support import prepared
from tests.support.asking import Answer, whole
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.managing import MIB, Manager
from tests.support.polling import eventually
from tests.support.processes import processes_of

pytestmark = [pytest.mark.engine, pytest.mark.slow]

STAND_IN = Path(__file__).parents[1] / "support" / "openai_stand_in.py"
ENGINES = ["by-socket", "by-port", "python"]
LLAMA = "-m ${model} -c 2048 -np 2 -t 1 --alias ${preset} --no-ui"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    env = {"CORRAL_STOP_TIMEOUT": "5"}
    with gateway(tmp_path_factory.mktemp("engines"), models={"slow": SLOW}, env=env) as started:
        manager = Manager(started)
        program, memory = llama_server(), {"Host": 200}
        for name, where in (
            ("by-socket", "--host ${socket} --port 1"),
            ("by-port", "--host 127.0.0.1 --port ${port}"),
        ):
            line = f"'{program}' {LLAMA} {where}"
            told = {"engine": "command", "command_line": line, "declared_memory": memory}
            manager.make(name, "slow", **told, parallel=2)
        told = {"engine": "llama_cpp_python", "declared_memory": memory}
        manager.make("python", "slow", **told, ctx_size=2048, threads=1)
        for name, flag in (("odd", "--late 0"), ("garbled", "--garbage")):
            line = f"'{sys.executable}' '{STAND_IN}' --port ${{port}} {flag}"
            told = {"engine": "command", "command_line": line, "declared_memory": memory}
            assert manager("POST", "/presets", {"name": name, **told}).status == 201
        assert manager("POST", "/aliases", {"name": "nick", "preset": "odd"}).status == 201
        yield started


@pytest.fixture(scope="module")
def manage(running: Gateway) -> Manager:
    return Manager(running)


@pytest.fixture(autouse=True)
def nothing_loaded(running: Gateway) -> None:
    for preset in {each["preset"] for each in running.snapshot()["instances"]}:
        running.control("unload", preset=preset)
    eventually(lambda: not running.snapshot()["instances"], "every instance has ended")


def tree_of(running: Gateway, preset: str) -> list[int]:
    """The runner's pid and those below it."""
    pid = running.instance_of(preset)["pid"]
    below = [process.pid for process in processes_of(running.var) if process.parent == pid]
    return [pid, *below, *_children(pid)]


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("engine", ENGINES)
def test_it_answers_like_any_other(running: Gateway, engine: str) -> None:
    plain = running.client.chat(engine)
    with running.client.stream(engine, stream_options={"include_usage": True}) as stream:
        ending = stream.to_end()

    assert whole(plain), plain.body
    assert plain.json["model"] == engine
    assert ending.finished
    assert running.models()[engine] == "loaded"
    assert running.instance_of(engine)["state"] == "loaded"


@pytest.mark.parametrize("engine", ["by-socket", "by-port"])
def test_its_own_error_is_the_one_that_the_native_engine_gives(
    running: Gateway, engine: str
) -> None:
    def refused(model: str) -> Answer:
        return running.client.chat(model, messages="no list")

    own, native = refused(engine), refused("slow")

    assert own.status == native.status >= 400
    assert own.json["error"] == native.json["error"]


def test_a_server_without_a_model_file_is_asked_by_the_name_that_it_knows(running: Gateway) -> None:
    plain = running.client.chat("nick")
    refused = running.client.chat("odd", messages=[{"role": "user", "content": "fail"}])

    assert (plain.status, plain.json["model"]) == (200, "odd")
    assert (refused.status, refused.code) == (418, "teapot")


def test_what_is_no_answer_is_an_error_with_a_code(running: Gateway) -> None:
    answer = running.client.chat("garbled")

    assert answer.status in (502, 503), answer.body
    assert answer.code


@pytest.mark.parametrize("engine", ENGINES)
def test_one_that_dies_in_the_middle_ends_the_stream_with_an_error(
    running: Gateway, engine: str
) -> None:
    with running.client.stream(engine, max_tokens=1500) as stream:
        assert stream.next_event() is not None
        os.kill(tree_of(running, engine)[-1], signal.SIGKILL)
        ending = stream.to_end()

    assert ending.explicit_error
    assert whole(running.client.chat(engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_client_that_leaves_frees_its_place(running: Gateway, engine: str) -> None:
    with running.client.stream(engine, max_tokens=1500) as stream:
        assert stream.next_event() is not None
        assert running.instance_of(engine)["leases"] == 1

    eventually(lambda: running.instance_of(engine)["leases"] == 0, "the lease has ended")


def test_what_it_takes_is_seen_of_its_whole_tree_and_learned(
    running: Gateway, manage: Manager
) -> None:
    told = manage("GET", "/presets/by-port").json
    same = {name: told[name] for name in ("engine", "command_line")}
    manage.make("fresh", "slow", **same, declared_memory={"Host": 500})
    assert manage.fit("fresh")["empty"]["bytes"] == {"Host": 500 * MIB}
    assert whole(running.client.chat("fresh"))
    query = "SELECT actual FROM scheduler_instancerecord WHERE preset = 'fresh'"
    eventually(lambda: prepared.rows(running.var, query)[0][0] != "{}", "it was looked at")
    eventually(
        lambda: 0 < manage.fit("fresh")["empty"]["bytes"]["Host"] < 500 * MIB,
        "the next start goes by what was seen",
        30,
    )


def test_it_is_never_measured_and_says_why(manage: Manager) -> None:
    asked = manage("POST", "/presets/by-port/measure")

    assert asked.status == 400, asked.body
    assert "cannot be measured" in asked.message
    assert manage.measurements("by-port") == []


def test_its_page_and_lists_tell_of_it(running: Gateway, manage: Manager) -> None:
    told = manage("GET", "/presets/by-port/effective").json
    listed = {each["id"]: each for each in running.client.request("GET", "/models").json["data"]}

    assert told["argv"][0] == str(llama_server())
    assert "${port}" in told["argv"]
    assert listed["by-port"]["status"]["value"] in ("unloaded", "loaded")
    assert running.client.request("GET", "/props?model=python").status in (404, 503)
