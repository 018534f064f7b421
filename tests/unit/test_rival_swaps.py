"""What the benchmark of swaps makes of its figures, and how rivals are named."""

from __future__ import annotations

import mmap

import pytest

from benchmarks import rivals
from benchmarks.rival_swaps import ROUTER, Figures, drop, text


def figures(cold_start: float) -> Figures:
    seconds = {"Corral": [1.0, 1.0, 4.0], ROUTER: [2.0, 2.0, 2.0]}
    return Figures(warm=seconds, cold=seconds, starts=[(cold_start, 1.0)] * 3)


def test_a_cold_swap_has_an_aim_where_a_cold_start_is_dear():
    assert "| cold: Corral / llama.cpp's router | 0.500 (0.500 to 2.000) | at most 0.8 |" in text(
        "large", figures(cold_start=1.6)
    )
    assert "| cold: Corral / llama.cpp's router | 0.500 (0.500 to 2.000) | none here |" in text(
        "large", figures(cold_start=1.4)
    )


def test_a_share_is_taken_within_its_round_and_judged_by_its_median():
    said = text("tiny", Figures(warm={"Corral": [1.0, 2.2, 3.3], ROUTER: [1.0, 2.0, 3.0]}))

    assert "| 1.100 (1.000 to 1.100) | at most 1.05 | not reached |" in said


def test_a_file_that_somebody_has_mapped_does_not_count_as_dropped(tmp_path):
    path = tmp_path / "mapped"
    path.write_bytes(b"x" * (4 << 20))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE])  # every page is there
        with pytest.raises(AssertionError, match="stay in the cache"):
            drop(path)


def test_rivals_are_named_a_line_each(monkeypatch):
    monkeypatch.setenv(rivals.VARIABLE, "\n llama-swap = swap --listen :{port} \n\nx=y={port}\n")

    assert rivals.commands() == {"llama-swap": "swap --listen :{port}", "x": "y={port}"}


@pytest.mark.parametrize("line", ["llama-swap", "=run {port}", "llama-swap=run"])
def test_a_rival_that_cannot_be_started_is_refused(monkeypatch, line):
    monkeypatch.setenv(rivals.VARIABLE, line)

    with pytest.raises(ValueError, match="is not NAME=COMMAND with a"):
        rivals.commands()
