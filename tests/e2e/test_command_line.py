"""An operator at the gateway's machine: what the commands say, and what goes on without them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from tests.support.at_a_terminal import COLUMNS, CTRL_C, CTRL_D, Terminal, at_a_terminal
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.hub import Hub, downloads_from, hub
from tests.support.polling import eventually
from tests.support.prepared import MANAGE, rows
from tests.support.tiny_model import tiny_model

pytestmark = [pytest.mark.engine, pytest.mark.slow]

FEW = ("--max-tokens", "4")
FAST, CRAWLING = 0, 20_000
"""Bytes a second; 0: as fast as it goes."""

ENDLESS = """
from models_registry.models import Alias, Preset
slow = Preset.objects.get(name="slow")
Alias.objects.create(name="endless", preset=slow, request_set={"ignore_eos": True})
"""
"""Random weights may end an answer at any token."""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    model = tiny_model(tmp_path_factory.mktemp("published"), "tiny-Q8_0")
    with hub() as found:
        found.repository("team/tiny", {model.name: model.read_bytes()})
        yield found


@pytest.fixture(scope="module")
def running(serving: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """With room for one model."""
    folder = tmp_path_factory.mktemp("operated")
    env = downloads_from(serving, folder)
    models = {"alpha": {"seed": 1}, "slow": SLOW}
    with gateway(folder, args=["--models-max", "1"], env=env, models=models) as found:
        found.environment["CORRAL_KEY"] = found.key
        found.django(ENDLESS)
        yield found


def terminal(running: Gateway, *arguments: str) -> AbstractContextManager[Terminal]:
    return at_a_terminal([sys.executable, str(MANAGE), *arguments], running.environment)


def audited(running: Gateway) -> tuple[str, str, str]:
    """(what was done, to what, by which kind of actor) of the last record."""
    query = "SELECT action, object_name, kind FROM models_registry_auditrecord"
    [last] = rows(running.var, f"{query} ORDER BY number DESC LIMIT 1")
    action, name, kind = last
    return action, name, kind


def test_a_model_is_loaded_seen_read_about_and_unloaded(running: Gateway) -> None:
    loaded = running.manage("load", "alpha")
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert loaded.stdout.splitlines()[-1] == "alpha is loaded"
    assert "\x1b" not in loaded.stdout
    assert audited(running) == ("loaded", "alpha", "command line")

    status = running.manage("status", "--json")
    told = json.loads(status.stdout)
    assert told["answers"]
    [instance] = told["scheduler"]["instances"]
    assert (instance["preset"], instance["state"]) == ("alpha", "loaded")
    assert "Host" in [device["device"] for device in told["devices"]]

    logs = running.manage("logs", "alpha", "--lines", "3")
    assert len(logs.stdout.splitlines()) == 3

    assert running.manage("unload", "alpha").stdout == "alpha is unloaded\n"
    eventually(lambda: not running.instance_of("alpha"), "it goes")


def test_logs_that_are_followed_go_on_when_the_model_is_started_anew(running: Gateway) -> None:
    running.client.chat("alpha")
    with terminal(running, "logs", "alpha", "--follow", "--lines", "1") as logs:
        logs.until("\n")
        running.unload_all()
        logs.forget()
        running.client.chat("alpha")
        logs.until("llama_server: listening on")
        logs.type(CTRL_C)
        assert logs.end() == 0


def test_what_is_not_there_is_declined_on_stderr_with_what_is_nearly_called_so(
    running: Gateway,
) -> None:
    done = running.manage("load", "alhpa")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "no model is called 'alhpa': did you mean 'alpha'?\n"


def test_ctrl_c_leaves_a_load_where_it_is_in_the_queue(running: Gateway) -> None:
    with running.client.stream("slow", max_tokens=3000, ignore_eos=True) as stream:
        stream.next_event()
        with terminal(running, "load", "alpha") as load:
            load.until("all that could make way are answering")
            load.type(CTRL_C)
            assert load.end() == 130
        [entry] = running.snapshot()["queue"]

    assert "alpha is loaded all the same; `manage.py unload alpha` ends that" in load.shown
    assert entry["preset"] == "alpha"
    eventually(lambda: running.instance_of("alpha").get("state") == "loaded", "it is loaded", 60)


def test_what_is_piped_into_chat_gets_the_answer_and_nothing_else(running: Gateway) -> None:
    done = subprocess.run(
        [sys.executable, str(MANAGE), "chat", "alpha", "--system", "Be brief.", *FEW],
        input="hi",
        env=running.environment,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\n")
    assert "tokens/s" not in done.stdout


def test_ctrl_c_stops_an_answer_and_not_the_chat(running: Gateway) -> None:
    with terminal(running, "chat", "endless") as chat:
        chat.until("> ")
        chat.type("Speak on.\n")
        eventually(lambda: running.instance_of("slow").get("leases"), "it answers", 60)
        chat.type(CTRL_C)
        chat.until("(stopped)")
        eventually(lambda: not running.instance_of("slow")["leases"], "its answer has ended")

        chat.type("/clear\n")
        chat.until("forgotten")
        chat.type(CTRL_D)
        assert chat.end() == 0


def test_a_chat_without_a_key_says_where_one_is_given(running: Gateway) -> None:
    keyless = {name: text for name, text in running.environment.items() if name != "CORRAL_KEY"}
    done = subprocess.run(
        [sys.executable, str(MANAGE), "chat", "alpha"],
        input="hi",
        env=keyless,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert "CORRAL_KEY or --key; `manage.py createkey NAME` makes one" in done.stderr


def test_ctrl_c_leaves_a_download_running_until_it_is_cancelled(
    running: Gateway, serving: Hub
) -> None:
    serving.bytes_per_second = CRAWLING
    with terminal(running, "download", "team/tiny") as download:
        download.until("% ")
        download.type(CTRL_C)
        assert download.end() == 130
    assert "\r" in download.shown
    last = rows(running.var, "SELECT id, state FROM models_registry_download ORDER BY id DESC")
    [(id, state)] = last
    assert state == "running"
    assert f"`manage.py download --cancel {id}` ends that" in download.shown

    done = running.manage("download", "--cancel", str(id))

    assert done.returncode == 0
    eventually(lambda: "cancelled" in running.manage("download", "--list").stdout, "it ends", 60)


def test_a_download_that_is_not_watched_at_a_terminal_is_told_in_plain_lines(
    running: Gateway, serving: Hub
) -> None:
    serving.bytes_per_second = FAST

    done = running.manage("download", "team/tiny")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].endswith("done")
    assert not {"\r", "\x1b"} & set(done.stdout)
    assert "team/tiny:Q8_0" in running.models()


def test_the_status_that_is_watched_fits_the_terminal(running: Gateway) -> None:
    with terminal(running, "status", "--watch", "0.2") as status:
        status.until("scheduler pid")
        status.until("\x1b[J")
        status.type(CTRL_C)
        assert status.end() == 0

    page = status.shown.split("\x1b[H")[1].split("\x1b[J")[0]
    assert all(len(line.rstrip("\r")) <= COLUMNS for line in page.replace("\x1b[K", "").split("\n"))
