"""The measure job, from its row to its figures, with a stand-in engine and a scheduler that is away
or answers; and the order that a person gives."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from huey.storage import MemoryStorage
from pytest_django import Settings

from models_registry import measurements, ports
from models_registry.engine_path import llama_server
from models_registry.jobs import measures
from models_registry.launch import launch_specs
from models_registry.models import Measurement, Preset
from scheduler import tasks
from scheduler.core.sizes import OpenShape
from scheduler.measuring.job import measure_row
from scheduler.measuring.ordering import order_due
from scheduler.measuring.shapes import shape_of
from scheduler.ports import ControlSocketScheduler
from scheduler.runtime.engines.llama_server import LlamaServer
from tests.process.running import children, short_var
from tests.support.polling import eventually
from tests.support.tiny_model import tiny_model

from .registry_rows import make_model_file, make_preset

pytestmark = pytest.mark.django_db(transaction=True)

FAKE = Path(__file__).resolve().parents[1] / "process" / "fake_measuring_server.py"
MIB = 1 << 20


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_var() as found:
        yield found


@pytest.fixture(autouse=True)
def preset(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Preset:
    settings.CORRAL_LLAMA_SERVER = str(FAKE)
    settings.CORRAL_COMMAND_LINE = {}
    monkeypatch.setattr(measures, "storage", MemoryStorage("measures"))  # not a person's own queue
    model_file = make_model_file(tmp_path / "a.gguf")
    tiny_model(tmp_path, "a")  # its header is read
    return make_preset("a", model_file, extra_options="ctx-size = 4096\nrope-scale = 2")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert children() == []


def flags(preset: Preset, text: str) -> None:
    Path(f"{preset.model_file.path}.flags").write_text(text)


def run(folder: Path, fingerprint: str = "") -> Measurement:
    """The job of the one row, as the consumer would run it."""
    [spec] = launch_specs()
    if not Measurement.objects.exists():
        measurements.due([spec], queue_is_empty=True)
    measure_row(
        fingerprint or spec.memory_fingerprint,
        engine=LlamaServer(llama_server),
        run_folder=folder,
        socket=folder / "control.sock",
    )
    return Measurement.objects.get()


@contextmanager
def listening(path: Path, ok: dict[str, Any] | None = None) -> Iterator[list[dict[str, Any]]]:
    """A scheduler that answers `ok` to the one thing that it is told."""
    told: list[dict[str, Any]] = []
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def answer() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rwb") as lines:
            asked = json.loads(lines.readline())
            told.append(asked)
            lines.write(json.dumps({"id": asked["id"], "ok": ok or {}}).encode() + b"\n")

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield told
        thread.join(10)
    finally:
        server.close()


def test_a_row_gets_its_figures(folder: Path) -> None:
    row = run(folder)

    assert row.state == "measured"
    assert measurements.total_bytes(row) == {"Host": 197 * MIB}
    assert (row.engine, row.way, row.error) == (
        "0.0-fake (build 7, commit 0000000)",
        "fit stage",
        "",
    )
    assert row.measured_at is not None
    assert row.seconds


def test_the_scheduler_is_told(folder: Path) -> None:
    with listening(folder / "control.sock") as told:
        row = run(folder)

    assert told == [
        {
            "op": "measured",
            "id": 1,
            "preset": "a",
            "fingerprint": row.fingerprint,
            "devices": {"Host": 197 * MIB},
        }
    ]


def test_on_an_rpc_server_that_is_in_use_it_is_put_off(folder: Path, settings: Settings) -> None:
    settings.CORRAL_COMMAND_LINE = {"rpc": "127.0.0.1:50052"}
    with listening(folder / "control.sock", {"instances": [{"preset": "a"}]}) as told:
        row = run(folder)

    assert [asked["op"] for asked in told] == ["snapshot"]
    assert (row.state, row.started_at, row.attempts) == ("pending", None, 0)


@pytest.mark.parametrize(
    ("args", "state"),
    [
        (["--rpc", "127.0.0.1:50053", "--device", "RPC0"], "measured"),
        (["--device", "none"], "measured"),
        (["--rpc", "127.0.0.1:50053,127.0.0.1:50052"], "pending"),
    ],
)
def test_an_instance_is_on_those_servers_only_that_it_was_told_of(
    folder: Path, settings: Settings, args: list[str], state: str
) -> None:
    """Else nothing would ever be measured beside what runs on the host."""
    settings.CORRAL_COMMAND_LINE = {"rpc": "127.0.0.1:50052"}
    running = {"instances": [{"preset": "a", "args": ["llama-server", *args]}]}
    with listening(folder / "control.sock", running):
        row = run(folder)

    assert row.state == state


def test_a_file_that_cannot_be_read_is_refused_and_its_preset_says_why(
    folder: Path, preset: Preset
) -> None:
    path = Path(preset.model_file.path)
    path.unlink()  # it is a link to the one that all tests have
    path.write_bytes(b"GGUF, or so it says")
    row = run(folder)

    assert row.state == "unreadable"
    [spec] = launch_specs()
    assert spec.problem == f"its file cannot be read: {row.error}"
    assert measurements.shapes_of([spec]) == {}


def test_what_cannot_be_measured_is_estimated_by_its_header(folder: Path, preset: Preset) -> None:
    flags(preset, "--exit-code 1")
    row = run(folder)

    [stored] = measurements.shapes_of(launch_specs()).values()
    assert (row.state, stored.estimated) == ("failed", True)
    shape = shape_of(stored.data)
    assert isinstance(shape, OpenShape)
    assert shape.contexts == (4096,)
    assert shape.devices == ("CUDA0",)


def test_a_second_run_does_nothing(folder: Path, preset: Preset, tmp_path: Path) -> None:
    flags(preset, f"--log {tmp_path / 'starts'}")
    first, second = run(folder), run(folder)

    assert first.measured_at == second.measured_at
    assert len((tmp_path / "starts").read_text().splitlines()) == 1


def test_a_failure_keeps_the_engines_last_words(folder: Path, preset: Preset) -> None:
    flags(preset, "--exit-code 1")
    row = run(folder)

    assert row.state == "failed"
    assert "exit code 1" in row.error
    assert "error loading model: it is broken" in row.error


def test_a_file_that_vanished_before_is_a_failure_with_its_reason(
    folder: Path, preset: Preset
) -> None:
    fingerprint = launch_specs()[0].memory_fingerprint
    measurements.due(launch_specs(), queue_is_empty=True)
    Path(preset.model_file.path).unlink()

    row = run(folder, fingerprint)
    assert row.state == "failed"
    assert "no preset has these options and files any more" in row.error


def test_a_file_that_changes_meanwhile_is_not_taken_for_what_was_ordered(
    folder: Path, preset: Preset, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    flags(preset, f"--until {gate} --log {tmp_path / 'starts'}")
    fingerprint = launch_specs()[0].memory_fingerprint

    def change() -> None:
        eventually((tmp_path / "starts").exists, "the child runs")
        tiny_model(tmp_path, "a", seed=1)
        gate.touch()

    changing = threading.Thread(target=change, daemon=True)
    changing.start()
    row = run(folder, fingerprint)
    changing.join()

    assert row.state == "failed"
    assert "any more" in row.error


def test_a_row_that_is_not_there_is_no_error(folder: Path) -> None:
    measure_row(
        "nobody knows it",
        engine=LlamaServer(llama_server),
        run_folder=folder,
        socket=folder / "control.sock",
    )

    assert not Measurement.objects.exists()


def test_what_is_due_is_put_on_the_queue_once() -> None:
    specs = launch_specs()
    assert order_due(specs) == [specs[0].memory_fingerprint]
    assert order_due(specs) == []

    assert measures.pending_count() == 1
    assert measures.dequeue().args == (specs[0].memory_fingerprint,)


def test_a_persons_order_is_put_on_the_queue(folder: Path) -> None:
    first = run(folder)
    ControlSocketScheduler(folder / "control.sock").measure("a")

    assert measures.pending_count() == 1
    assert run(folder).measured_at > first.measured_at


@pytest.mark.parametrize("name", ["a", "nope"])
def test_an_order_that_cannot_be_carried_out_is_refused(
    folder: Path, preset: Preset, name: str
) -> None:
    Path(preset.model_file.path).unlink()

    with pytest.raises(ports.SchedulerRefused):
        ControlSocketScheduler(folder / "control.sock").measure(name)
    assert measures.pending_count() == 0


def test_what_a_killed_consumer_had_begun_is_queued_as_the_next_one_starts() -> None:
    specs = launch_specs()
    measurements.due(specs, queue_is_empty=True)
    measurements.claim(specs[0].memory_fingerprint)

    tasks.take_up_interrupted()

    assert measures.pending_count() == 1
