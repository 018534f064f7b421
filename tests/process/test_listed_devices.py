"""Devices of which the engine tells: a stand-in for what is not here, and real RPC servers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing
from scheduler.runtime.devices import listed as listed_module
from scheduler.runtime.devices.device import Device
from scheduler.runtime.devices.listed import MIB, Listed
from tests.support.polling import eventually
from tests.support.rpc_device import rpc_device

pytestmark = pytest.mark.slow

ENVIRONMENT = {"PATH": os.environ["PATH"]}


class Engine:
    """A program that says what is in `said`, and ends as `end` says."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "llama-server"
        self.said = folder / "said"
        self.asked = folder / "asked"
        self.asked.touch()
        self.now = 0.0
        self.listed = Listed(lambda: self.program, ENVIRONMENT, clock=lambda: self.now)
        self.will()
        self.has("  ROCm0: Radeon (16384 MiB, 12000 MiB free)")

    def will(self, end: str = "exit 0") -> None:
        new = self.program.with_suffix(".new")
        new.write_text(
            "#!/bin/sh\n"
            f'echo "$* cuda=${{CUDA_VISIBLE_DEVICES-unset}} rpc=$LLAMA_ARG_RPC" >> {self.asked}\n'
            f"cat {self.said}\n{end}\n"
        )
        new.chmod(0o755)
        new.replace(self.program)

    def has(self, *lines: str) -> None:
        self.said.write_text("\n".join(["Available devices:", *lines, ""]))

    def read(self, later: float = 2.0, **options: bool) -> tuple[Device, ...]:
        """A look `later` seconds after the last; until the answer has come."""
        self.now += later
        return eventually(lambda: self._look({"without_cuda": False, **options}), "an answer")[0]

    def _look(self, options: dict[str, bool]) -> list[tuple[Device, ...]]:
        """Empty while a question is under way."""
        devices = self.listed.read(**options)
        return [devices] if self.listed._sources[""].asking is None else []

    @property
    def questions(self) -> list[str]:
        return self.asked.read_text().splitlines()


@pytest.fixture
def engine(tmp_path):
    engine = Engine(tmp_path)
    yield engine
    engine.listed.close()


def test_the_engines_devices_are_seen_and_followed(engine):
    (device,) = engine.read()
    assert (device.reading.device, device.kind, device.name) == ("ROCm0", "ROCm", "Radeon")
    assert (device.reading.total, device.reading.free) == (16384 * MIB, 12000 * MIB)
    assert device.reading.foreign is None

    engine.has("  ROCm0: Radeon (16384 MiB, 3000 MiB free)")
    assert engine.read()[0].reading.free == 3000 * MIB


def test_it_is_asked_every_two_seconds_while_it_has_devices(engine):
    for _ in range(8):
        engine.read(later=0.5)

    assert len(engine.questions) == 2


def test_it_is_asked_at_once_when_something_has_ended(engine):
    engine.read()
    engine.read(later=0.6, fresh=True)
    engine.read(later=0.1, fresh=True)

    assert len(engine.questions) == 2


def test_without_devices_it_is_asked_once_a_minute(engine):
    engine.has("  (none)")
    for _ in range(29):
        assert engine.read(fresh=True) == ()
    assert len(engine.questions) == 1

    engine.read(later=10.0)
    assert len(engine.questions) == 2


def test_an_engine_that_never_told_of_devices_and_fails_is_asked_once_a_minute(engine):
    engine.will("exit 1")
    for _ in range(5):
        assert engine.read() == ()

    assert len(engine.questions) == 1


def test_it_is_asked_again_when_a_person_wants_to_know(engine):
    engine.has("  (none)")
    engine.read()
    engine.has("  Vulkan0: Arc (8192 MiB, 8000 MiB free)")
    engine.listed.ask_again()

    eventually(lambda: engine.read(later=0.0), "the new device is there")


def test_where_nvml_tells_of_nvidias_devices_the_engine_does_not_start_their_driver(engine):
    engine.read(without_cuda=True)
    engine.read(without_cuda=False)

    assert ["cuda= " in question for question in engine.questions] == [True, False]


def test_what_configures_a_child_does_not_configure_a_question(engine, tmp_path):
    environment = {**ENVIRONMENT, "LLAMA_ARG_RPC": "127.0.0.1:9"}
    asking = Listed(lambda: engine.program, environment)
    asking.read(without_cuda=False)
    asking.close()

    assert engine.questions == ["--list-devices cuda=unset rpc="]


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("exit 3", ""),
        ("kill -9 $$", ""),
        ("exit 0", "error: I have lost my devices"),
        ("exit 0", "Available devices:\n  ROCm0: Radeon (16384 MiB, 99999 MiB free)\n"),
        ("exit 0", "Available devices:\n  (none)\n"),
    ],
)
def test_an_engine_that_fails_or_lies_leaves_the_last_known(engine, end, said, caplog):
    engine.read()
    engine.will(end)
    engine.said.write_text(said)
    for _ in range(3):
        (device,) = engine.read()

    assert (device.reading.total, device.reading.free) == (16384 * MIB, 12000 * MIB)
    assert device.stale
    assert device.warning
    assert [record.levelname for record in caplog.records] == ["WARNING"]

    engine.will()
    engine.has("  ROCm0: Radeon (16384 MiB, 12001 MiB free)")
    (device,) = engine.read(later=60.0)
    assert (device.reading.free, device.stale, device.warning) == (12001 * MIB, None, "")


def test_an_engine_that_is_missing_leaves_the_last_known(engine, caplog):
    engine.read()
    engine.program.unlink()
    for _ in range(3):
        (device,) = engine.read()

    assert device.stale
    assert len(caplog.records) == 1


def test_without_an_engine_there_are_no_devices():
    def missing() -> Path:
        raise EngineMissing("run `make setup`")

    asking = Listed(missing, ENVIRONMENT)
    assert asking.read(without_cuda=False) == ()


def test_an_engine_that_hangs_is_ended_and_asked_again(engine, monkeypatch):
    engine.read()
    monkeypatch.setattr(listed_module, "HANGS_SECONDS", 0.4)
    engine.will("sleep 600")
    (device,) = engine.read()
    assert "does not answer" in device.warning

    engine.will()
    assert engine.read()[0].stale is None


# Real RPC servers -----------------------------------------------------------------------


@contextlib.contextmanager
def asking(*servers: str) -> Iterator[Listed]:
    listed = Listed(llama_server, ENVIRONMENT, servers)
    try:
        yield listed
    finally:
        listed.close()


def named(listed: Listed) -> dict[str, Device]:
    devices = listed.read(without_cuda=True, fresh=True)
    return {device.reading.device: device for device in devices}


@pytest.mark.engine
def test_each_rpc_server_is_a_device_in_the_order_of_the_list():
    with rpc_device() as one, rpc_device() as two, asking(two, one) as listed:
        devices = named(listed)

    assert {name: device.name for name, device in devices.items()} == {"RPC0": two, "RPC1": one}
    assert all(device.reading.total > 0 for device in devices.values())
    assert {device.kind for device in devices.values()} == {"RPC"}


@pytest.mark.engine
def test_a_busy_rpc_server_is_not_waited_for_and_survives_the_question():
    with rpc_device() as busy, rpc_device() as idle, asking(busy, idle) as listed:
        assert [device.stale for device in named(listed).values()] == [None, None]
        with _client(busy):
            eventually(lambda: named(listed)["RPC0"].stale, "it is seen to be busy")
            devices = named(listed)
            assert "one at a time" in devices["RPC0"].warning
            assert devices["RPC0"].reading.total > 0
            assert devices["RPC1"].stale is None
        eventually(lambda: named(listed)["RPC0"].stale is None, "it has answered")
        time.sleep(0.1)
        assert _accepts(busy)


@pytest.mark.engine
def test_a_busy_rpc_server_is_asked_once_until_it_answers():
    now = 0.0
    with rpc_device() as busy, _client(busy):
        listed = Listed(llama_server, ENVIRONMENT, [busy], clock=lambda: now)
        named(listed)
        question = listed._sources[busy].asking
        for _ in range(3):
            now += 60.0
            named(listed)

        assert question is not None
        assert listed._sources[busy].asking is question
        assert os.getsid(question._process.pid) != os.getsid(0)  # a Ctrl-C does not end it
        listed.close()


@pytest.mark.engine
def test_an_rpc_server_that_dies_keeps_its_name_and_is_seen_when_it_is_back(caplog):
    with rpc_device() as other, rpc_device() as mortal, asking(mortal, other) as listed:
        named(listed)
        os.kill(_listener(mortal), signal.SIGKILL)
        eventually(lambda: not named(listed)["RPC0"].reading.free, "its end is seen")
        devices = named(listed)
        assert "Failed to connect" in devices["RPC0"].warning
        assert devices["RPC0"].stale is None, "that there is no room is true of now"
        assert (devices["RPC1"].name, devices["RPC1"].stale) == (other, None)
        assert len(caplog.records) == 1

        with _server(mortal):
            eventually(lambda: named(listed)["RPC0"].reading.free, "it is back")


@pytest.mark.engine
def test_a_server_that_never_was_there_has_no_figures_but_its_number():
    with rpc_device() as there, asking("127.0.0.1:9", there) as listed:
        assert list(named(listed)) == ["RPC1"]


@pytest.mark.engine
def test_nothing_is_left_of_a_question_that_was_never_answered():
    with rpc_device() as busy, asking(busy) as listed, _client(busy):
        named(listed)
        question = listed._sources[busy].asking
        assert question is not None
        listed.close()
        assert question._process.returncode is not None


@contextlib.contextmanager
def _client(server: str) -> Iterator[None]:
    """Holds the server as a child does."""
    host, port = server.split(":")
    with socket.create_connection((host, int(port))):
        time.sleep(0.2)  # it accepts
        yield


def _accepts(server: str) -> bool:
    host, port = server.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@contextlib.contextmanager
def _server(endpoint: str) -> Iterator[None]:
    host, port = endpoint.split(":")
    program = llama_server().with_name("ggml-rpc-server")
    quiet = subprocess.DEVNULL
    with subprocess.Popen([program, "-H", host, "-p", port], stdout=quiet, stderr=quiet) as running:
        try:
            yield
        finally:
            running.kill()


def _listener(endpoint: str) -> int:
    """The pid of the server that was started for it."""
    port = endpoint.rpartition(":")[2]
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"rpc-server" in words[0] and port.encode() in words:
                return int(entry.name)
    raise AssertionError(f"nothing listens at {endpoint}")
