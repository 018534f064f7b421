"""llama.cpp's INI, line by line (llamacpp_router.md 2.1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_registry.ini.text import Fault, Ini, IniError, decoded, key_lines, parse


def sections(text: str) -> dict[str, dict[str, str]]:
    return {
        name: {key.key: key.value for key in section.keys}
        for name, section in parse(text).sections.items()
    }


def faults(text: str) -> list[str]:
    with pytest.raises(IniError) as caught:
        parse(text)
    return str(caught.value).splitlines()


def told(text: str) -> list[Fault]:
    """What is wrong with it, if anything is."""
    try:
        parse(text)
    except IniError as error:
        return error.faults
    return []


def warnings(found: Ini) -> list[str]:
    return [str(warning) for warning in found.warnings]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_sections_hold_their_keys_whatever_ends_the_lines(end: str) -> None:
    text = end.join(
        ["# a remark", "[ a ] ; b", "c = 4096", " ; indented", "", "\t", "ngl=99", "[b]"]
    )

    assert sections(text) == {"a": {"c": "4096", "ngl": "99"}, "b": {}}


def test_a_byte_order_mark_is_left_out() -> None:
    assert sections("\ufeff[a]\nc = 1") == {"a": {"c": "1"}}
    assert sections(decoded(b"\xef\xbb\xbf[a]\r\nc = 1\r\n")) == {"a": {"c": "1"}}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("x = a b  ", "a b"),
        ("x = a ; b", "a"),
        ("x = a#b", "a"),
        ("x = top_k;top_p", "top_k"),
        ("x =", ""),
        ("x = ; only a remark", ""),
        ('x = "a"', '"a"'),
        ('x = "a" ; b', '"a"'),
        ('x = "a" b # c', '"a" b'),
        ('x = {"a":"b"}', '{"a":"b"}'),
        ("x = a = b", "a = b"),
        ("x = a \\\n", "a \\"),
        ("x = \u00a0a", "\u00a0a"),
    ],
)
def test_a_value_ends_before_its_remark_as_in_llama_cpp(line: str, value: str) -> None:
    assert sections(f"[a]\n{line}") == {"a": {"x": value}}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('x = "top_k;top_p"', "top_k;top_p"),
        ('x = "a#b" ; a remark', "a#b"),
        (r'x = "{\"a\":\"b#c\"}"', '{"a":"b#c"}'),
        (r'x = "C:\\a;b"', r"C:\a;b"),
        (r'x = "\d;"', r"\d;"),
        ('x = "a;b', '"a'),
        ('x = "a;b" c', '"a'),
    ],
)
def test_quotes_keep_whole_what_llama_cpp_would_cut(line: str, value: str) -> None:
    assert sections(f"[a]\n{line}") == {"a": {"x": value}}


def test_of_a_key_the_last_counts_and_a_section_that_comes_again_replaces_the_first() -> None:
    found = parse("[a]\nx = 1\ny = 2\n[b]\n[a]\nx = 3\nx = 4")

    assert [key.value for key in found.sections["a"].keys] == ["3", "4"]
    assert warnings(found) == [
        "line 5, column 1: [a] replaces the section of that name in line 1",
    ]


def test_keys_before_any_header_make_a_section_default() -> None:
    found = parse("x = 1\n[a]")

    assert [key.key for key in found.sections["default"].keys] == ["x"]
    assert warnings(found) == [
        "line 1, column 1: keys before any [section] make a section [default]"
    ]


def test_corrals_own_keys_are_comments_to_llama_cpp() -> None:
    text = '[a]\n# corral: priority = high ; x\n;corral:tags = "a;b"\n# corral is fine\n#corral: y'

    assert faults(text) == [
        "line 5, column 10: 'y' is neither a [section], nor `key = value` (a switch: `key = true`)"
    ]
    assert sections(text.removesuffix("\n#corral: y")) == {"a": {"priority": "high", "tags": "a;b"}}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (" x = 1", "column 1: is indented"),
        ("\t[b]", "column 1: is indented"),
        ("--ctx-size = 1", "no dashes"),
        ("ctx size = 1", "a key is of letters"),
        ("= 1", "a key is of letters"),
        ("metrics", "neither a [section], nor `key = value`"),
        ("[b", "is no section header"),
        ("[b] c", "is no section header"),
        ("[]", "is no section header"),
        ("[ ]", "is no section header"),
        ("# corral:", "'' is neither"),
        ("x = a\x00b", "column 6: holds a control character"),
        ("x = \x1b[31m", "column 5: holds a control character"),
    ],
)
def test_a_faulty_line_is_told_with_its_place(line: str, words: str) -> None:
    (fault,) = faults(f"[a]\ny = 1\n{line}\nz = 2")

    assert fault.startswith("line 3, ")
    assert words in fault


def test_every_faulty_line_is_told() -> None:
    assert [fault.split(",")[0] for fault in faults("a\n[b]\nc\nd = 1\n-e = 1")] == [
        "line 1",
        "line 3",
        "line 5",
    ]


def test_what_is_not_utf_8_is_told_with_its_place() -> None:
    with pytest.raises(IniError, match="line 2, column 5: is not UTF-8"):
        decoded(b"[a]\r\nx = \xff")


@pytest.mark.parametrize(
    "line",
    [
        "x = " + "a" * (1 << 20),
        "[" + " " * (1 << 20),
        "x" + " " * (1 << 20) + "y",
        "x = " + '"' + "\\" * (1 << 20),
        "x = " + '";' + '\\"' * (1 << 19),
        ";" * (1 << 20),
        "x" * (1 << 20),
    ],
    ids=["value", "header", "blanks", "backslashes", "quotes", "comment", "key"],
)
def test_a_line_of_a_mebibyte_is_read_in_no_time(line: str) -> None:
    """Quadratic would be hours."""
    found = told(f"[a]\n{line}\n")

    assert len("".join(map(str, found))) < 300


def test_a_file_beyond_all_measure_is_refused() -> None:
    assert faults("x" * (4 << 20) + "\n") == ["line 1, column 1: the file is longer than 4 MiB"]


VALUES = st.text(st.characters(exclude_categories=["Cc", "Cs"])).map(lambda text: text.strip(" "))


@given(VALUES, st.booleans())
def test_what_is_written_is_read_back(value: str, corral: bool) -> None:
    lines = "\n".join(key_lines("x", value, corral=corral))

    assert sections(f"[a]\n{lines}\n") == {"a": {"x": value}}


@given(st.text())
def test_whatever_the_text_it_is_read_or_refused_with_lines(text: str) -> None:
    assert all(fault.line >= 1 and fault.column >= 1 for fault in told(text))
