"""Lines for a terminal, and for what is none."""

from __future__ import annotations

import io

from models_registry.terminal import Screen, bar, clipped, padded, table, width_of


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_wide_characters_take_two_columns_and_combining_ones_none():
    assert width_of("模型") == 4
    assert width_of("e\N{COMBINING ACUTE ACCENT}") == 1
    assert padded("模型", 6) == "模型  "


def test_what_is_clipped_never_takes_more_columns_than_there_are():
    assert clipped("模型模型", 8) == "模型模型"
    assert clipped("模型模型", 7) == "模型模\N{HORIZONTAL ELLIPSIS}"
    assert clipped("模型模型", 6) == "模型\N{HORIZONTAL ELLIPSIS}"
    assert clipped("model", 0) == ""


def test_columns_of_a_table_line_up_whatever_is_in_them():
    lines = table([("A", "N"), ("模型", "1"), ("m", "12")], right=frozenset({1}))

    assert lines == ["A      N", "模型   1", "m     12"]


def test_nothing_in_a_table_is_obeyed_by_the_terminal():
    assert table([("\x1b[2J", "x\ny")]) == ["\\x1b[2J  x\\ny"]


def test_a_bar_is_full_only_at_the_end():
    assert bar(0.999, 12) == "[######### ]"
    assert bar(1.0, 12) == "[##########]"
    assert bar(-1.0, 12) == "[          ]"


def test_progress_is_a_line_a_step_where_nothing_can_be_drawn_in_place():
    stream = io.StringIO()
    screen = Screen(stream)

    for text, step in (("1 %", "begun"), ("2 %", "begun"), ("99 %", "nearly")):
        screen.progress(text, step)
    screen.line("done")

    assert stream.getvalue() == "begun\nnearly\ndone\n"


def test_progress_is_drawn_over_at_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = FakeTerminal()
    screen = Screen(stream)

    screen.progress("1 %", "begun")
    screen.progress("2 %", "begun")
    screen.line("done")

    assert stream.getvalue() == "1 %\x1b[K\r2 %\x1b[K\r\x1b[Kdone\n"


def test_colours_are_for_terminals_whose_user_wants_them(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Screen(FakeTerminal()).painted("x", "dim") == "\x1b[2mx\x1b[0m"
    assert Screen(io.StringIO()).painted("x", "dim") == "x"

    monkeypatch.setenv("NO_COLOR", "1")
    assert Screen(FakeTerminal()).painted("x", "dim") == "x"


def test_a_page_is_no_higher_than_the_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = FakeTerminal()

    Screen(stream).page([str(number) for number in range(100)])

    shown = stream.getvalue().splitlines()
    assert len(shown) == 24
    assert shown[-2].startswith("\N{HORIZONTAL ELLIPSIS} 78 more lines")


def test_columns_of_the_environment_count(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "33")
    assert Screen(FakeTerminal()).width == 33
    assert Screen(io.StringIO()).width is None
