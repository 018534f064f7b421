"""Children that hang, crash, talk without end or talk nonsense while they are to be measured."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from models_registry.launch import LaunchSpec
from scheduler.measuring import trying
from scheduler.measuring.figures import DeviceFigures, totals
from scheduler.measuring.measuring import Measured, NotMeasured, measure
from scheduler.runtime.engines.base import Command
from scheduler.runtime.engines.llama_server import LlamaServer
from tests.support.polling import eventually
from tests.support.tiny_model import tiny_model

from .running import children, is_alive, short_var

FAKE = Path(__file__).with_name("fake_measuring_server.py")
MIB = 1 << 20
UNKNOWN_TO_BINDINGS = {"rope-scale": "2"}
"""With it the bindings are not asked: what the fake does is then the end of it."""


@pytest.fixture
def run_folder() -> Iterator[Path]:
    with short_var() as folder:
        yield folder
        assert list(folder.iterdir()) == [], "a socket was left"
    assert children() == []


def spec(tmp_path: Path, flags: str, **options: str) -> LaunchSpec:
    model = tiny_model(tmp_path, "m")
    Path(f"{model}.flags").write_text(flags)
    known = {"model": str(model), **(options or UNKNOWN_TO_BINDINGS)}
    return LaunchSpec(
        "p", (), str(model), ("--model", str(model)), 1, "f",
        memory_fingerprint="m", memory_options=known,
    )  # fmt: skip


def measured(tmp_path: Path, run_folder: Path, flags: str, seconds: float = 20.0) -> Measured:
    return measure(spec(tmp_path, flags), LlamaServer(lambda: FAKE), run_folder, seconds=seconds)


def failure(tmp_path: Path, run_folder: Path, flags: str, seconds: float = 20.0) -> str:
    with pytest.raises(NotMeasured) as caught:
        measured(tmp_path, run_folder, flags, seconds)
    return str(caught.value)


def test_a_table_is_taken_and_its_child_killed(tmp_path, run_folder):
    found = measured(tmp_path, run_folder, "")

    assert dict(totals(found.devices)) == {"Host": 197 * MIB}
    assert found.way == "fit stage"


@pytest.mark.parametrize("options", [{"ctx-size": "256"}, UNKNOWN_TO_BINDINGS])
def test_the_presets_own_variables_are_in_all_that_is_started_to_measure_it(
    tmp_path, run_folder, monkeypatch, options
):
    environments: list[Mapping[str, str]] = []

    def heard_out(command: Command, *_: object, **__: object) -> None:
        environments.append(command.env)
        raise OSError("it is not started")

    monkeypatch.setattr(trying, "heard_out", heard_out)
    told = replace(spec(tmp_path, "", **options), env={"GGML_OWN": "1"})

    with pytest.raises((NotMeasured, OSError)):
        measure(told, LlamaServer(lambda: FAKE), run_folder)

    assert environments
    assert all(environment["GGML_OWN"] == "1" for environment in environments)


def test_one_that_hangs_is_given_up_in_time(tmp_path, run_folder):
    assert "said nothing of its memory within 0.5 s" in failure(
        tmp_path, run_folder, "--hang", seconds=0.5
    )


def test_one_that_crashes_is_told_with_its_signal_and_last_words(tmp_path, run_folder):
    told = failure(tmp_path, run_folder, "--crash")

    assert "signal SIGSEGV" in told
    assert "error loading model: it is broken" in told


def test_one_that_exits_with_an_error_is_told_with_its_code_and_last_words(tmp_path, run_folder):
    told = failure(tmp_path, run_folder, "--exit-code 3")

    assert "exit code 3" in told
    assert "error loading model: it is broken" in told


def test_one_that_exits_well_and_said_nothing_has_not_measured(tmp_path, run_folder):
    assert "ended with exit code 0" in failure(tmp_path, run_folder, "--silent")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--nonsense", "is not understood"),
        ("--absurd", "does not add up"),
        ("--huge", "does not add up"),
        ("--half", "is not understood"),
    ],
)
def test_a_table_that_cannot_be_is_not_believed(tmp_path, run_folder, flags, words):
    assert words in failure(tmp_path, run_folder, flags)


def test_a_device_that_nobody_knows_is_taken_by_its_name(tmp_path, run_folder):
    found = measured(tmp_path, run_folder, "--unknown-device")

    assert dict(totals(found.devices)) == {"Frobnicator7": 6 * MIB}


def test_a_line_of_a_gigabyte_costs_no_memory_and_is_the_end(tmp_path, run_folder):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = failure(tmp_path, run_folder, f"--huge-line {1 << 30}")

    assert "printed without end" in told
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


def test_a_long_line_before_the_table_is_passed_over(tmp_path, run_folder):
    found = measured(tmp_path, run_folder, f"--huge-line {1 << 20}")

    assert dict(totals(found.devices)) == {"Host": 197 * MIB}


def test_one_that_prints_lines_without_end_is_ended(tmp_path, run_folder):
    assert "printed without end" in failure(tmp_path, run_folder, "--endless")


def test_one_that_would_load_its_weights_is_ended_before(tmp_path, run_folder):
    assert "did not say what it would take" in failure(tmp_path, run_folder, "--loads")


def test_what_an_engine_reports_itself_comes_first(tmp_path, run_folder):
    found = measured(tmp_path, run_folder, "--measuring")

    assert found.way == "reported"
    assert found.devices == (DeviceFigures("CUDA0", 1000, 200, 30, weights=1000),)


def test_a_grandchild_that_holds_the_pipes_goes_too(tmp_path, run_folder):
    log = tmp_path / "log"
    told = failure(tmp_path, run_folder, f"--grandchild --exit-code 1 --log {log}")

    assert "exit code 1" in told
    group = int(log.read_text())
    eventually(lambda: not any(map(is_alive, _pids_of(group))), "its whole group is gone")


def test_a_program_that_is_missing_is_told(tmp_path, run_folder):
    gone = LlamaServer(lambda: tmp_path / "no-such-server")
    with pytest.raises(NotMeasured, match="could not be started"):
        measure(spec(tmp_path, ""), gone, run_folder)


def test_one_that_hangs_with_a_grandchild_is_given_up_as_well(tmp_path, run_folder):
    assert "said nothing" in failure(tmp_path, run_folder, "--hang --grandchild", seconds=0.3)


def _pids_of(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[2]) == group:
                found.append(int(entry.name))
    return found
