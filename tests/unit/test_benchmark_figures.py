"""What the benchmarks make of their samples."""

from __future__ import annotations

from pathlib import Path

from benchmarks.frame import Sample, spread, table
from benchmarks.load import Load, Order, Outcome, wrk_is_for
from benchmarks.proxy_overhead import ratios
from benchmarks.results import write_section


def _sample(per_second: float) -> Sample:
    return Sample(Outcome(int(per_second), 1.0, None, 0.0), {})


def test_a_cell_is_the_median_and_the_extremes():
    assert spread([3.0, 1.0, 1000.0]) == "3 (1 to 1,000)"


def test_a_ratio_is_taken_within_its_round():
    samples = {
        ("ours", "x"): [_sample(50), _sample(500)],
        ("other", "x"): [_sample(100), _sample(1000)],
    }

    assert ratios(samples, "ours", "other", "x") == [0.5, 0.5]


def test_a_table_has_a_line_under_its_head():
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_wrk_is_not_for_what_it_cannot_do():
    many, one = Load("", 32, stream=False), Load("", 1, stream=False)
    streams = Load("", 32, stream=True)

    assert not any(
        wrk_is_for(order)
        for order in (
            Order(1, "", one, 2.0),
            Order(1, "", streams, 2.0),
            Order(1, "", many, 0.2),
            Order(1, "", many, 2.0, fresh=True),
        )
    )


def test_a_section_is_replaced_and_the_others_stay(tmp_path: Path):
    path = tmp_path / "results.md"
    write_section(path, "One", "first")
    write_section(path, "Two", "second")

    write_section(path, "One", r"again \1")

    text = path.read_text()
    assert "first" not in text
    assert text.endswith("## One\n\nagain \\1\n\n## Two\n\nsecond\n")
