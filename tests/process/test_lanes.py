"""How `make test` runs what it runs: a failed test is tried once more, and a fault stays one."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from scripts import tests as lanes

ONCE = """
from pathlib import Path

def test_it_fails_the_first_time():
    seen = Path(__file__).with_suffix(".seen")
    first, _ = not seen.exists(), seen.touch()
    assert not first

def test_it_passes():
    pass
"""
ALWAYS = "def test_it_fails():\n    assert False\n"
PASSES = "def test_it_passes():\n    pass\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs one lane with that source, in a folder of its own, and gives what `main` gives."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q -p no:cacheprovider\n")
    (tmp_path / "test_quiet.py").write_text(PASSES)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a second of imports each time
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setattr(lanes, "ROOT", tmp_path)
    monkeypatch.setattr(lanes, "LANES", {"one": ["test_lane.py"]})
    monkeypatch.setattr(lanes, "ALONE", ["test_quiet.py"])

    def run_lane(source: str) -> int:
        (tmp_path / "test_lane.py").write_text(source)
        return lanes.main([])

    before = [(each, signal.getsignal(each)) for each in (signal.SIGINT, signal.SIGTERM)]
    yield run_lane
    for each, handler in before:
        signal.signal(each, handler)


@pytest.mark.slow
def test_what_passes_by_itself_is_told_as_unsteady(run, capfd):
    assert run(ONCE) == 0
    said = capfd.readouterr().out
    assert "UNSTEADY, passed only by itself" in said
    assert "test_it_fails_the_first_time" in said.split("UNSTEADY")[1]
    assert said.endswith("== all lanes passed\n")


@pytest.mark.slow
def test_what_fails_again_has_failed(run, capfd):
    assert run(ALWAYS) == 1
    assert capfd.readouterr().out.endswith("== failed: one\n")


@pytest.mark.slow
def test_what_cannot_be_collected_gets_no_second_try(run, capfd):
    assert run("import nothing_of_the_kind") == 1
    assert "once more" not in capfd.readouterr().out
