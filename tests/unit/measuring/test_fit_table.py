"""The engine's table, from lines captured of the real one, and from anything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.measuring.figures import DeviceFigures, totals
from scheduler.measuring.fit_table import FitTable, Seen

CAPTURED = Path(__file__).resolve().parents[2] / "support" / "captured"
MIB = 1 << 20
HEADER = "common_memory_breakdown_print: | memory breakdown [MiB] | total   free    self   model"
HOST = "common_memory_breakdown_print: |   - Host | 197 = 92 + 90 + 15 |"


def read(name: str) -> tuple[FitTable, Seen]:
    return heard((CAPTURED / f"fit-0.3.36-{name}.txt").read_text().splitlines())


def heard(lines: list[str]) -> tuple[FitTable, Seen]:
    table = FitTable()
    for line in lines:
        seen = table.take(line)
        if seen is not Seen.NOTHING:
            return table, seen
    return table, Seen.NOTHING


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("host", {"Host": 197}),
        ("no-prefix", {"Host": 197}),
        ("too-big", {"Host": 89955}),
        ("rpc-partial", {"RPC0": 87, "Host": 151}),
        ("rpc-whole", {"RPC0": 196, "Host": 32}),
        ("repacked", {"RPC0": 86, "Host": 107 + 39}),
    ],
)
def test_the_total_of_a_device_is_the_engines_own_sum(name: str, expected: dict[str, int]) -> None:
    table, seen = read(name)

    assert seen is Seen.WHOLE
    assert {d: n // MIB for d, n in totals(table.figures()).items()} == expected


def test_columns_keep_what_rounding_took_from_them() -> None:
    table, _ = heard([HEADER, HOST.replace("197", "198"), "end"])

    assert table.figures() == (
        DeviceFigures("Host", 92 * MIB, 90 * MIB, 16 * MIB, weights=92 * MIB),
    )


def test_weights_in_another_layout_are_the_hosts_and_counted_as_copies() -> None:
    table, _ = read("repacked")

    assert table.copies == 39 * MIB
    assert [figures.device for figures in table.figures()] == ["RPC0", "Host"]


def test_a_broken_file_gives_no_table_and_no_reason_to_wait() -> None:
    table, seen = read("broken")

    assert (table.figures(), seen) == ((), Seen.NO_MORE)


def test_only_the_first_table_counts() -> None:
    table, seen = heard([HEADER, HOST, HEADER, HOST.replace("197 = 92", "106 = 1")])

    assert seen is Seen.WHOLE
    assert totals(table.figures()) == {"Host": 197 * MIB}


def test_weights_about_to_be_read_are_a_reason_to_stop() -> None:
    line = "0.00.700.675 I load_tensors: loading model tensors, this can take a while... (mmap)"

    assert FitTable().take(line) is Seen.NO_MORE


@pytest.mark.parametrize(
    "row",
    [
        "|   - Host | 197 = 92 + 90 + 1 |",
        "|   - Host | 1 = 92 + 90 + 15 |",
        "|   - Host | 197 = 92 + 90 |",
        "|   - Host | -197 = -92 + -90 + -15 |",
        "|   - Host | 2000000000 = 2000000000 + 0 + 0 |",
        "|   | 197 = 92 + 90 + 15 |",
        "| what is that |",
    ],
)
def test_a_row_that_cannot_be_makes_the_table_worthless(row: str) -> None:
    table, seen = heard([HEADER, HOST, f"common_memory_breakdown_print: {row}"])

    assert seen is Seen.NO_MORE
    assert table.problem
    assert table.figures() == ()


def test_a_table_without_end_is_not_kept() -> None:
    table, seen = heard([HEADER, *[HOST] * 100])

    assert (table.figures(), seen) == ((), Seen.NO_MORE)
    assert len(table.rows) < 100


def test_a_row_before_any_header_is_none() -> None:
    assert heard([HOST, "end"])[0].figures() == ()


def test_a_log_line_that_quotes_a_row_is_none() -> None:
    quoted = f"0.00.1 I srv log: chat template says {HOST}"

    assert heard([HEADER, quoted])[0].rows == []


@given(st.lists(st.text(max_size=200) | st.sampled_from([HEADER, HOST]), max_size=20))
def test_no_line_is_too_odd(lines: list[str]) -> None:
    table, _ = heard(lines)

    assert all(total >= 0 for total in totals(table.figures()).values())
