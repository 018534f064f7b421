"""The benchmarks as programs: a moment each, against a stand-in for the engine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.prepared import clean_environment

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.engine]


@pytest.mark.parametrize(
    ("question", "heading", "rows"),
    [
        (
            "proxy_overhead",
            "Proxy overhead",
            ["Corral / bare", "Corral, daphne / router", "Corral: web", "llama.cpp's router"],
        ),
        ("swap_time", "Swap time", ["A ends", "all"]),
    ],
)
def test_a_benchmark_writes_its_section(
    tmp_path: Path, question: str, heading: str, rows: list[str]
):
    results = tmp_path / "results.md"
    results.write_text("# What was measured\n\n## Another\n\nas it was\n")

    _run(question, "--children", "stand-in", results=results)

    text = results.read_text()
    assert "## Another\n\nas it was\n" in text
    section = text.partition(f"## {heading}\n")[2]
    assert re.search(r"\d+ cores, .* GiB; .*Load average at the start: ", section)
    for row in rows:
        assert re.search(rf"^\| {row} \|( [+-]?[\d.,]+ \(.*\) \|)+$", section, re.MULTILINE)


def test_the_decision_times_come_with_a_chart(tmp_path: Path):
    results = tmp_path / "results.md"

    _run("decision_time", "--steps", "2", results=results)

    text = results.read_text()
    assert re.search(r"^\| a waiter leaves \|( [\d.]+ / [\d.]+ \|){2}$", text, re.MULTILINE)
    assert "![" in text
    assert (tmp_path / "decision_time.svg").read_text().startswith("<svg")


def test_the_wait_beside_a_busy_model_is_measured_against_the_rivals(tmp_path: Path):
    results = tmp_path / "results.md"

    _run("starvation", results=results)

    text = results.read_text()
    assert re.search(r"^\| B waits, s \| [\d.]+ \(.*\) \| .+ \|$", text, re.MULTILINE)
    assert re.search(r"^\| B's wait as a share of that \| [\d.]+ ", text, re.MULTILINE)


def test_the_reading_of_headers_is_measured(tmp_path: Path):
    results = tmp_path / "results.md"

    _run("indexing", "--steps", "1", results=results)

    assert re.search(r"^\| 100 \|( [\d.]+ \(.*\) \|){4}$", results.read_text(), re.MULTILINE)


def test_an_unknown_question_is_refused(tmp_path: Path):
    done = _start("swap", results=tmp_path / "results.md")

    assert done.returncode == 2
    assert "unknown: swap" in done.stderr
    assert not (tmp_path / "results.md").exists()


def test_a_look_at_the_figures_costs_little_of_a_core(tmp_path: Path):
    results = tmp_path / "results.md"

    _run("metrics_scrape", "--steps", "1", results=results)

    assert re.search(r"^\| 1 x 1 \| [\d,]+ \|( [\d.,]+ \(.*\) \|){3}$", results.read_text(), re.M)


def _run(*arguments: str, results: Path) -> None:
    done = _start(*arguments, results=results)
    assert done.returncode == 0, done.stderr


def _start(*arguments: str, results: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    command += ["--once", "--rounds", "1", "--seconds", "0.1", "--results", str(results)]
    return subprocess.run(
        command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, timeout=240
    )
